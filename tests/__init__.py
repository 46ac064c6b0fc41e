"""Everything that proves a sentence about Clew, grouped by kind of proof."""

"""Ways in and out: each adapter stands alone and speaks to actors, projections and the journal."""

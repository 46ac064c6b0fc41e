"""Questions about speed, each answered by a program; `benchmarks/README.md` says how to ask them."""

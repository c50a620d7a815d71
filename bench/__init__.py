"""Benchmarks of mainspring; see README.md beside this file for what each claims and leaves out."""

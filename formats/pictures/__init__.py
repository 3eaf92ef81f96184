"""Pictures of models, made from what `inspect`, `layout` and `diff` return, and tables for notebooks."""

"""What Python lacks: packages that are imported when needed, dataclasses that are made late, and the like."""

"""Where the bytes of tensors are, how they are read and transformed, and what writes them; nothing about formats."""

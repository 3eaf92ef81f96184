"""Encrypted models."""

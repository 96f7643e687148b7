"""Readers and writers of foreign formats, one module a format."""

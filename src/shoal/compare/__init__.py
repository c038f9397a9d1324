"""Techniques and policies side by side on one table: what each leaves to attacks, promises, keeps and costs."""

"""Pages and pictures of what was measured: data in, text out."""

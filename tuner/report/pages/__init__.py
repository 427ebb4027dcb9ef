"""The HTML pages and their charts."""

"""Reports: analysis of stored measurements, shown as text, tables, pages and pictures."""

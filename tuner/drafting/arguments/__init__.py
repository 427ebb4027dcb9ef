"""The section `arguments` of a draft: dtypes, shapes, inputs, and structs by value."""

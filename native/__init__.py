"""What is compiled, one module: ``_native``.  ``module.c`` has the map of its C files."""

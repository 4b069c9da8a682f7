"""Small programs as exporters write them, one function each; `export_models.py --small` writes them to tests/models/exported."""

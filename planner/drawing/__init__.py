"""Pictures of plans: text, SVG, HTML and PNG."""

"""Tables, figures and the page that shows them, all from result files."""

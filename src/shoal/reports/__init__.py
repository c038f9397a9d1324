"""Pages, plots and notebook views: everything that people read about a release, from one system of templates."""

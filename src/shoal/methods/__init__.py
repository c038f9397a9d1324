"""Methods that turn a problem into a plan, one file or package each."""

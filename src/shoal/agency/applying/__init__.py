"""The owner's side: records into the classes of an agency's plan, and a release by it or none."""

"""How a release is made and read: forms of a release, labels, manifest, folder and witness."""

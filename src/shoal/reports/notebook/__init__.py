"""How releases, audits and taxonomies show themselves in a notebook, and progress there."""

from shoal.reports.notebook import audit as audit
from shoal.reports.notebook import bars as bars
from shoal.reports.notebook import release as release
from shoal.reports.notebook import taxonomy as taxonomy

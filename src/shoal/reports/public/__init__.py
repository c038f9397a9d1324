"""What everybody may read about a release: functions of its manifest alone."""

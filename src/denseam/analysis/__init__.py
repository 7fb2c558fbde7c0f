"""Judging records: intervals, the verdict on transfer, the coordinate check, predicted loss curves."""

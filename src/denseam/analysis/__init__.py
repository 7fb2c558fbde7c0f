"""What records say: intervals, the verdict on transfer, the coordinate check, predicted loss curves."""

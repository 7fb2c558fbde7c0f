"""What people see: pictures, progress, and one self-contained HTML page from a folder of results.

The page draws its charts itself, with a few kilobytes of script. They follow the theme and the width of the
window, print as vectors, are read by keyboard, and weigh a hundredth of a plotting library.
"""

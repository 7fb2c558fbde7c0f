"""Results for people: pictures, progress, and one self-contained HTML page on a folder of results.

The page draws its charts with a few kilobytes of script. They follow the theme and the width of the window,
print as vectors, can be read by keyboard, and are a hundredth of the size of a plotting library.
"""

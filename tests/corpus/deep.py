def write(f): return 0

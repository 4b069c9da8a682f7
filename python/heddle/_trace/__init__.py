"""Recorders: PyTorch programs and plain Python functions as the neutral graph that the native part reads (docs/trace.md).

`graph` builds the neutral graph, `fx` walks graphs that PyTorch exported, `record` records operators and nested regions while a function
runs on fake tensors, `convert` makes Python's control flow such regions, `function` is `@heddle.function`. Nothing here knows what an
operator means: the native part does."""

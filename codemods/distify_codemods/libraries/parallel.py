"""What runs a model on several GPUs of one process."""

from __future__ import annotations

#: How many GPUs a process sees.
COUNT = "torch.cuda.device_count"
#: What a library takes for "spread the layers over all GPUs".
SPREADS = ("auto", "balanced", "balanced_low_0", "sequential")
#: `data_parallel(model, inputs)` calls the model.
FUNCTIONAL = ("torch.nn.parallel.data_parallel",)
#: Classes of libraries that are derived from nn.DataParallel, and take batches of another form.
OF_LIBRARIES = ("torch_geometric.nn.DataParallel", "torch_geometric.nn.data_parallel.DataParallel")
#: The steps of it, by hand.
REPLICATES = ("torch.nn.parallel.replicate", "torch.nn.parallel.parallel_apply")
#: What goes through the parts of a wrapper sees the wrapper, or names that begin with `module.`; and how the model
#: itself is asked, so that it looks as before: empty where no line of the same does.
WALKS = {
    "children": "iter([{}])",
    "named_children": 'iter([("module", {})])',
    "_modules": '{{"module": {}}}',
    "modules": "",
    "named_modules": "",
    "named_parameters": '(("module." + name, part) for name, part in {}.named_parameters())',
    "named_buffers": '(("module." + name, part) for name, part in {}.named_buffers())',
    "get_submodule": "",
    "get_parameter": "",
    "get_buffer": "",
}
#: Those of them that give all that is inside, at any depth: who takes each for what it is finds the same.
DEEP = frozenset({"modules", "named_modules", "named_parameters", "named_buffers"})

"""Where the time of a training step goes, measured from outside: scripts are run as they are.

clock    a process's time, cut into parts
parts    which functions of torch and of the runtime are which part
replicas what DistributedDataParallel waits for at the end of a backward pass, by its own stamps
passes   passes over loaders: those that train, and those that evaluate
alone    one process that computes as a rank of many, whose collectives cost nothing
pace     several of those at once, step by step
program  runs a script, and writes down what its steps were made of
"""

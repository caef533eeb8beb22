"""Forward passes that ranks share: each computes its part of a batch, and all go on with the whole outputs.

What `nn.DataParallel` does with threads, over processes. Every rank runs the script as it is, with the same random
numbers and the same whole batches; only the forward passes of trained models are split, so that whatever a script does
with what they return is what one process would do. The operations between "every rank holds the same" and "each rank
holds its part" are the conjugate ones of Megatron-LM (Shoeybi et al., arXiv 1909.08053, section 3).
"""

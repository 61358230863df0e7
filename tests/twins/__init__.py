"""NumPy twins of the compiled kernels: slow, plain, and the definition of correct.

A twin has the name and the signature of its kernel. `reference.py` holds the linear learners; every other file is named
after the C++ file or the part of the online estimator that it describes.
"""

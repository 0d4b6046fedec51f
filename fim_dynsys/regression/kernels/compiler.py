"""How loops are compiled: once per installation, without the interpreter's lock, by IEEE arithmetic.

What is compiled is kept beside the file it was compiled from and made anew when that file changes, but not when
another one does that it calls into: after a change of `kernels.terms`, say, delete the ``__pycache__`` here.
"""

import numba

compiled = numba.njit(cache=True, nogil=True, error_model="numpy")
inlined = numba.njit(inline="always", error_model="numpy")

"""How loops are compiled: once per installation, without the interpreter's lock, by IEEE arithmetic."""

import numba

compiled = numba.njit(cache=True, nogil=True, error_model="numpy")
inlined = numba.njit(inline="always", error_model="numpy")

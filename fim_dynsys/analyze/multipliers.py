"""Floquet multipliers as eigenvalues of a product, which is never formed: it would lose the small ones."""

from collections.abc import Iterator, Sequence

import numpy as np

_SWEEPS = 30  # moduli of ratio 0.4 are then separated to rounding, closer ones stay in one block
_SPLIT = 1e-12  # below the diagonal, of entries up to 1: beneath what the integration leaves


def product_eigenvalues(factors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues of the product of square matrices, the last factor leftmost, without multiplying them.

    Parameters
    ----------
    factors : ndarray (m, n, n)
        Applied in this order.

    Returns
    -------
    values : ndarray (n,) complex
        Eigenvalues, 0 where they underflow.
    log_moduli : ndarray (n,)
        Logarithms of their moduli.
    """
    n = factors.shape[1]
    basis = np.eye(n)
    for _ in range(_SWEEPS):
        start, triangles = basis, []
        for factor in factors:
            basis, triangle = np.linalg.qr(factor @ basis)
            triangles.append(triangle)
        turn = start.T @ basis
        if np.abs(np.tril(turn, -1)).max(initial=0.0) < _SPLIT:
            break
    values, logs = np.zeros(n, dtype=complex), np.full(n, -np.inf)
    for block in _blocks(turn):
        values[block], logs[block] = _block_eigenvalues(turn, triangles, block)
    return values, logs


def _blocks(turn: np.ndarray) -> Iterator[slice]:
    """Runs of indices that the sweeps have not separated: what is left below the diagonal tells."""
    n, first = len(turn), 0
    for i in range(1, n + 1):
        if i == n or np.abs(turn[i:, :i]).max() < _SPLIT:
            yield slice(first, i)
            first = i


def _block_eigenvalues(
    turn: np.ndarray, triangles: Sequence[np.ndarray], block: slice
) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues of a diagonal block of ``turn @ product of triangles``, and the logs of their moduli."""
    product, shift = np.eye(block.stop - block.start), 0.0
    for triangle in triangles:
        product = triangle[block, block] @ product
        size = np.abs(product).max()
        if not size > 0:
            return np.zeros(len(product)), np.full(len(product), -np.inf)
        product, shift = product / size, shift + np.log(size)
    values = np.linalg.eigvals(turn[block, block] @ product)
    with np.errstate(divide="ignore"):
        logs = np.log(np.abs(values)) + shift
    return values * np.exp(shift), logs

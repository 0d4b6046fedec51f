"""Programs of arithmetic: expressions as lists of operations, which need no compiler of their own.

Each row of a program is an operation and the registers of its operands; its value goes into the register that
follows that of the row before. A compiled loop works through some hundred million rows a second.
"""

import numpy as np

from fim_dynsys.regression.kernels.compiler import compiled

ADD, SUB, MUL, DIV, POW, POWLOG, SELECT, MIN, MAX = range(9)
EXP, LOG, SQRT, SIN, COS, TAN, ASIN, ACOS, ATAN, SINH, COSH, TANH, ABS, SIGN = range(9, 23)


@compiled
def run(code: np.ndarray, first: int, last: int, base: int, r: np.ndarray) -> None:
    """Work through rows ``first`` to ``last`` of a program on registers.

    Parameters
    ----------
    code : int32 array (n, 4)
        Operation and operands.
    first, last : int
        Rows.
    base : int
        Register of the first row's value.
    r : array
        Registers, inputs and constants in front.
    """
    for i in range(first, last):
        op, a = code[i, 0], r[code[i, 1]]
        if op < 4:
            b = r[code[i, 2]]
            if op == ADD:
                value = a + b
            elif op == MUL:
                value = a * b
            elif op == SUB:
                value = a - b
            else:
                value = a / b
        elif op == POW:
            value = a ** r[code[i, 2]]
        elif op == POWLOG:  # a^b log(a), whose limit at 0 is 0 for positive exponents
            value = a ** r[code[i, 2]] * np.log(a) if a > 0.0 else 0.0
        elif op == SELECT:
            value = r[code[i, 2]] if a >= 0.0 else r[code[i, 3]]
        elif op == MIN:
            value = min(a, r[code[i, 2]])
        elif op == MAX:
            value = max(a, r[code[i, 2]])
        elif op == EXP:
            value = np.exp(a)
        elif op == LOG:
            value = np.log(a)
        elif op == SQRT:
            value = np.sqrt(a)
        elif op == SIN:
            value = np.sin(a)
        elif op == COS:
            value = np.cos(a)
        elif op == TAN:
            value = np.tan(a)
        elif op == ASIN:
            value = np.arcsin(a)
        elif op == ACOS:
            value = np.arccos(a)
        elif op == ATAN:
            value = np.arctan(a)
        elif op == SINH:
            value = np.sinh(a)
        elif op == COSH:
            value = np.cosh(a)
        elif op == TANH:
            value = np.tanh(a)
        elif op == ABS:
            value = abs(a)
        else:
            value = np.sign(a)
        r[base + i] = value


@compiled
def load(machine: tuple, t: float, x: np.ndarray, curve: np.ndarray, since: float) -> None:
    """Time, states, and inputs by cubics (4, m) in the time ``since`` their start, into the registers.

    A machine is a program's rows; sizes: numbers of states, inputs and parameters, of rows that the values
    need and of all rows, and the base; its registers; the registers of values; and the derivatives by states
    and by parameters that are not zero: (row, column, register).
    """
    _, sizes, r, _, _, _ = machine
    d = sizes[0]
    r[0] = t
    for i in range(d):
        r[1 + i] = x[i]
    for k in range(sizes[1]):
        r[1 + d + k] = curve[0, k] + since * (curve[1, k] + since * (curve[2, k] + since * curve[3, k]))


@compiled
def evaluate(machine: tuple, out: np.ndarray) -> bool:
    """Values (k,) at what was loaded; False where they are not finite."""
    code, sizes, r, values_at, _, _ = machine
    run(code, 0, sizes[3], sizes[5], r)
    finite = True
    for i in range(len(values_at)):
        out[i] = r[values_at[i]]
        finite = finite and np.isfinite(out[i])
    return finite


@compiled
def linearise(machine: tuple, out: np.ndarray, by_state: np.ndarray) -> None:
    """Values (k,) and derivatives by the states (k, d) at what was loaded; see `tangents` for others."""
    code, sizes, r, values_at, jac, _ = machine
    run(code, 0, sizes[4], sizes[5], r)
    for i in range(len(values_at)):
        out[i] = r[values_at[i]]
    by_state[:] = 0.0
    for e in range(len(jac)):
        by_state[jac[e, 0], jac[e, 1]] = r[jac[e, 2]]


@compiled
def tangents(
    machine: tuple, by_state: np.ndarray, slopes: np.ndarray, column: np.ndarray, out: np.ndarray
) -> None:
    """Derivatives (k, n) of what was linearised along sensitivities (d, n) of the states.

    ``column`` (q,) is the sensitivity that each parameter has itself, -1 where none is wanted.
    """
    _, _, r, _, _, by_parameter = machine
    d, n = slopes.shape
    for i in range(len(out)):
        for c in range(n):
            out[i, c] = 0.0
        for j in range(d):
            value = by_state[i, j]
            if value != 0.0:
                for c in range(n):
                    out[i, c] += value * slopes[j, c]
    for e in range(len(by_parameter)):
        c = column[by_parameter[e, 1]]
        if c >= 0:
            out[by_parameter[e, 0], c] += r[by_parameter[e, 2]]

"""pysindy's everyday calls; only the line of make_model changes, to `lambda: fim_dynsys.load("fim-ode")`."""

import numpy as np
import pysindy
from scipy.integrate import solve_ivp

make_model = pysindy.SINDy


def oscillator(t, x):
    return [x[1], -x[0] - 0.2 * x[1]]


def observe(x0, t):
    return solve_ivp(oscillator, (t[0], t[-1]), x0, t_eval=t, rtol=1e-10, atol=1e-10).y.T


dt = 0.05
t = np.arange(0, 8, dt)
x = observe([2.0, 0.0], t)

# fit with a step, with an array of times, with names
model = make_model()
model.fit(x, t=dt)
model.fit(x, t=t)
model.fit(x, t=t, feature_names=["x", "v"])
names = model.feature_names
model.print()
model.print(precision=2)
model.print(lhs=["dx/dt", "dv/dt"])
equations = model.equations(precision=3)
coefficients = model.coefficients()
library = model.get_feature_names()
complexity = model.complexity

# field values, scores, simulation
prediction = model.predict(x)
score = model.score(x, t=t)
t_test = np.arange(0, 5, 0.02)
x_test = observe([1.5, 0.5], t_test)
test_score = model.score(x_test, t=t_test)
simulation = model.simulate(x_test[0], t_test)
loose = model.simulate(
    x_test[0], t_test, integrator="solve_ivp", integrator_kws={"method": "RK45", "rtol": 1e-6}
)

# derivatives that are given
x_dot = np.array([oscillator(0, row) for row in x])
derived = make_model()
derived.fit(x, t=t, x_dot=x_dot)
derived_score = derived.score(x, t=t, x_dot=x_dot)

# several trajectories of equal length, sharing the times
starts = [[2.0, 0.0], [-1.0, 1.0], [0.5, -1.5]]
equal = [observe(x0, t) for x0 in starts]
several = make_model()
several.fit(equal, t=t)
several_predictions = several.predict(equal)
several_score = several.score(equal, t=t)
several.fit(equal, t=dt)

# several trajectories of unequal length, a list of times
times = [np.arange(0, end, dt) for end in (8, 5, 3)]
unequal = [observe(x0, own) for x0, own in zip(starts, times, strict=True)]
ragged = make_model()
ragged.fit(unequal, t=times)
ragged_predictions = ragged.predict(unequal)
ragged_score = ragged.score(unequal, t=times)
ragged.fit(unequal, t=times, x_dot=[np.array([oscillator(0, row) for row in part]) for part in unequal])

"""Twenty published systems in realistic units, of which nothing was chosen: three short records each."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from fim_dynsys.fields.symbolic import SymbolicField
from fim_dynsys.simulation.solution import simulate

RECORDS, SAMPLES = 3, 60
"""Records of a system, and samples of each at irregular times."""
UNSEEN = 2
"""Further paths, which fits are scored by."""
_RTOL, _ATOL_OF_SIZE = 1e-10, 1e-12


@dataclass(frozen=True)
class Published:
    """One system.

    Attributes
    ----------
    name, source : str
        Its name, and who published it.
    rates : dict of str to str
        Right-hand sides by state.
    low, high : tuple of float
        Box from which first states are drawn.
    end : float
        Length of a record.
    parameters : dict of str to float
        In the units of the source, or natural ones of the field of science.
    """

    name: str
    source: str
    rates: dict[str, str]
    low: tuple[float, ...]
    high: tuple[float, ...]
    end: float
    parameters: dict[str, float] = field(default_factory=dict)

    def truth(self) -> SymbolicField:
        """The true field."""
        return SymbolicField(self.rates, parameters=self.parameters)

    @cached_property
    def paths(self) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Times and true states of the records, then of the unseen paths."""
        rng = np.random.default_rng([len(self.name), *self.name.encode()])
        truth, low, high = self.truth(), np.array(self.low), np.array(self.high)
        times, states = [], []
        for k in range(RECORDS + UNSEEN):
            inner = np.sort(rng.uniform(0.0, self.end, SAMPLES - 2))
            t = np.concatenate([[0.0], inner, [self.end]])
            t = t if k < RECORDS else np.linspace(0.0, self.end, 3 * SAMPLES)
            start = low + (high - low) * rng.random(len(low))
            times.append(t)
            states.append(simulate(truth, start, t, rtol=_RTOL, atol=_ATOL_OF_SIZE * high.max()).x[0])
        return times, states

    def given(self, sigma: float, seed: int) -> dict[str, Any]:
        """Noisy records as ``fit`` takes them; noise in standard deviations of the states."""
        times, states = (of[:RECORDS] for of in self.paths)
        spread = np.concatenate(states).std(axis=0)
        rng = np.random.default_rng([seed, len(self.rates)])
        noisy = [x + sigma * spread * rng.standard_normal(x.shape) for x in states]
        return {"x": noisy, "t": times, "feature_names": list(self.rates)}


PUBLISHED = (
    Published(
        "elimination that saturates, two compartments",
        "Wagner 1973, J. Pharmacokinet. Biopharm. 1: 103; mg/L, h",
        {"c": "-V*c/(K + c) - k12*c + k21*p", "p": "k12*c - k21*p"},
        (15.0, 0.0),
        (40.0, 5.0),
        30.0,
        {"V": 3.0, "K": 4.0, "k12": 0.4, "k21": 0.3},
    ),
    Published(
        "cholera with water",
        "Tien and Earn 2010, Bull. Math. Biol. 72: 1506; shares of the population, d",
        {"S": "-bI*S*I - bW*S*W", "I": "bI*S*I + bW*S*W - g*I", "W": "x*(I - W)"},
        (0.7, 0.01, 0.0),
        (0.98, 0.06, 0.05),
        60.0,
        {"bI": 0.25, "bW": 0.35, "g": 0.25, "x": 0.12},
    ),
    Published(
        "direct-current motor",
        "Krause, Analysis of Electric Machinery 1986, chapter 2; A, rad/s, s",
        {"i": "(12 - R*i - k*w)/L", "w": "(k*i - b*w)/J"},
        (0.0, 0.0),
        (6.0, 90.0),
        0.5,
        {"R": 1.2, "L": 0.05, "k": 0.1, "b": 0.001, "J": 0.0015},
    ),
    Published(
        "two tanks in a row",
        "Johansson 2000, IEEE Trans. Control Syst. Technol. 8: 456; cm, s",
        {"h": "q - a*sqrt(h)", "l": "a*sqrt(h) - b*sqrt(l)"},
        (4.0, 3.0),
        (18.0, 16.0),
        120.0,
        {"q": 0.4, "a": 0.12, "b": 0.15},
    ),
    Published(
        "lake that turns over",
        "Carpenter, Ludwig and Brock 1999, Ecol. Appl. 9: 751; g/m2, years",
        {"P": "l - s*P + r*P**8/(m**8 + P**8)"},
        (0.2,),
        (4.5,),
        12.0,
        {"l": 0.25, "s": 0.35, "r": 0.9, "m": 1.6},
    ),
    Published(
        "fermentation that its product inhibits",
        "Levenspiel 1980, Biotechnol. Bioeng. 22: 1671; g/L, h",
        {
            "X": "m*(1 - P/L)*S/(K + S)*X",
            "S": "-m*(1 - P/L)*S/(K + S)*X/Y",
            "P": "a*m*(1 - P/L)*S/(K + S)*X",
        },
        (0.5, 60.0, 0.0),
        (3.0, 110.0, 10.0),
        16.0,
        {"m": 0.5, "L": 70.0, "K": 8.0, "Y": 0.12, "a": 3.8},
    ),
    Published(
        "enzyme that its product inhibits",
        "Cornish-Bowden, Fundamentals of Enzyme Kinetics 1979, chapter 5; uM, min",
        {"s": "-V*s/(K*(1 + p/I) + s)", "p": "V*s/(K*(1 + p/I) + s)"},
        (30.0, 0.0),
        (80.0, 30.0),
        40.0,
        {"V": 4.0, "K": 12.0, "I": 15.0},
    ),
    Published(
        "switch of covalent modification",
        "Goldbeter and Koshland 1981, Proc. Natl Acad. Sci. 78: 6840; share, s",
        {"w": "a*(1 - w)/(J + 1 - w) - b*w/(L + w)"},
        (0.02,),
        (0.98,),
        20.0,
        {"a": 0.2, "b": 0.17, "J": 0.1, "L": 0.12},
    ),
    Published(
        "two boxes of the ocean",
        "Stommel 1961, Tellus 13: 224; scaled temperature and salinity, scaled time",
        {"T": "1 - T - abs(T - r*S)*T/l", "S": "d*(1 - S) - abs(T - r*S)*S/l"},
        (0.1, 0.1),
        (1.2, 1.2),
        12.0,
        {"r": 1.6, "l": 0.4, "d": 0.25},
    ),
    Published(
        "predators that interfere",
        "DeAngelis, Goldstein and O'Neill 1975, Ecology 56: 881; per km2, years",
        {"N": "r*N*(1 - N/K) - c*N*P/(1 + h*N + i*P)", "P": "e*c*N*P/(1 + h*N + i*P) - m*P"},
        (10.0, 2.0),
        (70.0, 14.0),
        40.0,
        {"r": 0.8, "K": 90.0, "c": 0.2, "h": 0.05, "i": 0.15, "e": 0.35, "m": 0.3},
    ),
    Published(
        "rooms and walls",
        "Madsen and Holst 1995, Energy Build. 22: 67; degrees Celsius, h",
        {"r": "(w - r)/(R*C) + (6 - r)/(Q*C) + q/C", "w": "(r - w)/(R*D) + (6 - w)/(U*D)"},
        (10.0, 8.0),
        (26.0, 22.0),
        60.0,
        {"R": 0.8, "C": 2.0, "Q": 12.0, "q": 1.2, "D": 9.0, "U": 3.0},
    ),
    Published(
        "two masses on springs",
        "Den Hartog, Mechanical Vibrations 1934, chapter 3; cm, cm/s, s",
        {
            "x": "v",
            "v": "(-k*x + c*(y - x))/m - b*v",
            "y": "w",
            "w": "(-k*y - c*(y - x))/n - b*w",
        },
        (-4.0, -8.0, -4.0, -8.0),
        (4.0, 8.0, 4.0, 8.0),
        8.0,
        {"k": 10.0, "c": 3.0, "m": 1.0, "n": 1.6, "b": 0.15},
    ),
    Published(
        "bowed string",
        "Rayleigh 1883, Philos. Mag. 15: 229; mm, m/s, ms",
        {"x": "v", "v": "a*v - b*v**3 - w*x"},
        (-1.5, -1.5),
        (1.5, 1.5),
        16.0,
        {"a": 1.1, "b": 0.9, "w": 1.7},
    ),
    Published(
        "free rigid body",
        "Landau and Lifshitz, Mechanics 1960, section 36; rad/s, s",
        {"p": "(B - C)/A*q*r", "q": "(C - A)/B*r*p", "r": "(A - B)/C*p*q"},
        (0.5, -0.8, -1.5),
        (2.5, 0.8, 1.5),
        14.0,
        {"A": 1.0, "B": 2.0, "C": 2.7},
    ),
    Published(
        "reactions in a row",
        "Fogler, Elements of Chemical Reaction Engineering 1986, chapter 6; mol/L, min",
        {"a": "-k*a**2", "b": "k*a**2/2 - l*b", "c": "l*b"},
        (1.0, 0.0, 0.0),
        (3.0, 0.6, 0.4),
        12.0,
        {"k": 0.45, "l": 0.35},
    ),
    Published(
        "p53 and Mdm2",
        "Geva-Zatorsky et al. 2006, Mol. Syst. Biol. 2: 0033; scaled, h",
        {"x": "b - a*y*x/(x + k)", "m": "c*x - d*m", "y": "d*m - e*y"},
        (0.1, 0.1, 0.1),
        (1.2, 1.2, 1.2),
        30.0,
        {"b": 0.9, "a": 1.7, "k": 0.05, "c": 1.1, "d": 0.8, "e": 0.8},
    ),
    Published(
        "virus whose infection saturates",
        "Song and Neumann 2007, J. Math. Anal. Appl. 329: 281; per uL, d",
        {"T": "s - d*T - b*T*V/(1 + a*V)", "I": "b*T*V/(1 + a*V) - g*I", "V": "p*I - c*V"},
        (60.0, 0.5, 1.0),
        (120.0, 8.0, 30.0),
        40.0,
        {"s": 8.0, "d": 0.08, "b": 0.009, "a": 0.01, "g": 0.5, "p": 6.0, "c": 2.5},
    ),
    Published(
        "bloom of plankton",
        "Truscott and Brindley 1994, Bull. Math. Biol. 56: 981; ug/L, d",
        {"P": "r*P*(1 - P/K) - R*Z*P**2/(a**2 + P**2)", "Z": "g*R*Z*P**2/(a**2 + P**2) - m*Z"},
        (10.0, 2.0),
        (60.0, 10.0),
        90.0,
        {"r": 0.3, "K": 108.0, "R": 0.7, "a": 15.0, "g": 0.15, "m": 0.05},
    ),
    Published(
        "semiconductor laser",
        "Agrawal and Dutta, Semiconductor Lasers 1986, chapter 6; scaled carriers and photons, ns",
        {"N": "J - N/t - G*(N - 1)*S", "S": "G*(N - 1)*S - S/p + f*N"},
        (0.5, 0.05),
        (2.5, 1.5),
        6.0,
        {"J": 3.0, "t": 1.5, "G": 4.0, "p": 0.5, "f": 0.01},
    ),
    Published(
        "growth of capital",
        "Solow 1956, Q. J. Econ. 70: 65; thousand dollars a worker, years",
        {"k": "s*k**(1/3) - n*k"},
        (5.0,),
        (220.0,),
        80.0,
        {"s": 1.8, "n": 0.06},
    ),
)

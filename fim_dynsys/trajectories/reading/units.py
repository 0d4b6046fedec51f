"""Units that stand in the names of columns, or in a row of their own."""

import re

# Symbols and words that instruments and people write; anything else in brackets stays part of the name.
_NAMES_TOO = """
    Nm3 Sm3 Nl NL sL slm slpm sccm scfm barg bara psig psia kgf lbf Wh Ah inH2O mmH2O cmH2O events molecules
""".split()  # noqa: SIM905 (units below names, and names where no other line has any)
_ONLY_IN_RATIOS = ("Nl", "NL")  # normal litres; alone it is a country
_BASES = """
    s m g A K V W J N C F H T L l h d Hz Pa bar eV mol cd rad sr deg px min hr hrs sec secs msec
    usec yr yrs day days week weeks month months year years hour hours minute minutes second seconds
    millisecond milliseconds ms us ns um nm mm cm km kg mg ug kPa MPa hPa mbar atm psi torr Torr
    mmHg rpm RPM ppm ppb M mM uM nM pM kN mV uV kV mA uA nA pA mW kW MW kJ kcal cal Ohm ohm kOhm S
    mS uS lx lm dB dBm pct percent % degC degF degrees degree radians volt volts Volt Volts VOLT
    amps amp ampere Ampere newton Newton meter meters metre metres pixel pixels count counts cells
    cell ind individuals AU a.u. arb arbitrary ml mL dl ha acre acres ft in inch inches lb lbs mph
    kmh kph g/l frame frames sample samples thousands thousand millions million 1 - none cpm OD
    CFU cfu PFU pfu copies IU U RFU RLU NTU FNU PSU psu bpm BPM cfs knots rev vvm gDCW gCDW gDW %RH
    dimensionless Deg
    Second Seconds Sec s. min. h. d. mo dy hr mn Jahr Jahre Tag Tage Stunden Sekunden Minuten
    \u0441 \u043c\u0441 \u043c\u0438\u043d \u0447 \u043c \u0441\u043c \u043c\u043c \u043a\u043c
    \u043a\u0433 \u0412 \u0410 \u043c\u0410 \u0413\u0446
""".split()  # noqa: SIM905 (the last two lines are Cyrillic: s, ms, min, h, m, cm, mm, km, kg, V, A, mA, Hz)
_SYMBOL = "|".join(sorted(map(re.escape, _BASES + _NAMES_TOO), key=len, reverse=True))
_PREFIX = "[numµμkMGTpcd]?"
_NAME_TOO = re.compile(rf"(?<![^\W\d]){_PREFIX}({'|'.join(_NAMES_TOO)})(?![^\W\d])")
_POWER = r"(?:\^?\*{0,2}-?\d+|[²³⁻¹]+)?"
_FACTOR = rf"(?:(?:{_PREFIX}(?:{_SYMBOL})|°\s?[CFK]?|º[CF]?|[kM]?Ω|Å|µ|‰|10\^?-?\d+){_POWER})"
_UNIT = re.compile(
    rf"^(?:1\s?/\s?)?{_FACTOR}(?:\s?[*·/.⋅ ]\s?{_FACTOR}|\s?/\s?\({_FACTOR}(?:[*·. ]{_FACTOR})*\))*$"
)
_OF_SUBSTANCE = re.compile(  # mgO2/L, gCOD/L, kgDM/ha: only the amount is a unit by itself
    rf"(?:[kmuµμn]?(?:g|mol)) ?[A-Z][A-Za-z]{{0,3}}\d?{_POWER}\s?/\s?{_FACTOR}(?:\s?/\s?{_FACTOR})?"
)
_RUN_TOGETHER = re.compile(rf"(?=.*-\d.*-\d)(?:{_FACTOR}){{2,5}}")  # umolm-2s-1
_BRACKETS = re.compile(r"^(?P<name>.*?\S)\s*[(\[{<](?P<unit>[^()\[\]{}<>]*(?:\([^()]*\)[^()]*)?)[)\]}>]$")
_IN_BRACKETS = re.compile(r"[(\[{<]+([^()\[\]{}<>]*(?:\([^()]*\)[^()]*)?)[)\]}>]+")
_SLASH = re.compile(r"^(?P<name>[^/]*\S)\s*(?: / |/ | /|, ?| in )\s*(?P<unit>\S.*)$")
_TIGHT_SLASH = re.compile(r"^(?P<name>[A-Za-z]\w*|\[[^][/]+\]|<[^<>/]+>)/(?P<unit>\S+)$")  # [A]/mM, <I>/mA
_CLOCK = re.compile(r"(?:yyyy|dd|[hH]{1,2}|mm)[-/:. ]?[a-zA-Z]{2}(?:[-/:. ]+[a-zA-Z]{1,4})*")  # hh:mm:ss.mmm
_OF_CLOCKS = set("ymdhs:/-. ")
_PARTS_OF_CLOCK = re.compile("yyyy|yy|ddd|dd|d|hh|h|mm|ss|[-/:. T]", re.IGNORECASE)
_CODES = {"yyyy": "%Y", "yy": "%y", "ddd": "%j", "dd": "%d", "d": "%d", "hh": "%H", "h": "%H", "ss": "%S"}
_OF_CIRCUIT = re.compile(r"[VIvi][a-z]?\([A-Za-z]+\d+\)")  # current of a part, voltage of a node: I(L1)
_FUNCTION = re.compile(r"(log|ln|log2|log10|lg|ld|exp|sqrt|sin|cos|tan|abs|diff)\(.*\)", re.IGNORECASE)
_FUNCTION_OF_TIME = re.compile(r"^(?P<name>\w+)\((?:t|time)\)$")


def without_brackets(text: str) -> str:
    """What stands in brackets, or the text itself: ``[m]`` is m, ``kg/(m s)`` stays."""
    found = _IN_BRACKETS.fullmatch(text.strip())
    return (text if found is None else found[1]).strip()


def is_unit(text: str) -> bool:
    """Whether a text reads as a unit, brackets round it or not."""
    bare = without_brackets(text)
    clock = _CLOCK.fullmatch(bare) is not None or clock_format(bare) is not None
    known = _UNIT.match(bare) or _OF_SUBSTANCE.fullmatch(bare) or _RUN_TOGETHER.fullmatch(bare)
    return bool(bare) and bare not in _ONLY_IN_RATIOS and (known is not None or clock)


def is_only_unit(text: str) -> bool:
    """Whether a text reads as a unit, and not as the name of a column."""
    return is_unit(text) and _NAME_TOO.search(text) is None


def clock_format(text: str) -> str | None:
    """The format of `strptime` that ``hh:mm``, ``yyyymmdd`` and the like stand for; None for other texts."""
    parts = [part.lower() for part in _PARTS_OF_CLOCK.findall(text)]
    fields = [part for part in parts if part in (*_CODES, "mm")]
    if "".join(parts) != text.lower() or len(fields) < 2 or not {"mm", "ddd"} & set(fields):
        return None
    if "/" in parts and not {"yy", "yyyy"} & set(fields):  # mm/h is rain
        return None
    form = ""
    for part in parts:
        minutes = "%H" in form or fields == ["mm", "ss"]  # months stand before hours
        form += ("%M" if minutes else "%m") if part == "mm" else _CODES.get(part, part.upper())
    return form


def split_name(text: str) -> tuple[str, str]:
    """Name and unit of a column, as of ``Time (s)``, ``v [m/s]``, ``T / K``; unit empty where it has none."""
    text = " ".join(text.split())
    function = _FUNCTION_OF_TIME.match(text)
    if function:
        return function["name"], ""
    if _OF_CIRCUIT.fullmatch(text) or _FUNCTION.fullmatch(text):
        return text, ""
    for pattern in (_BRACKETS, _SLASH, _TIGHT_SLASH):
        found = pattern.match(text)
        if found and is_unit(found["unit"]) and found["unit"].strip() not in ("1", "-", "none"):
            return found["name"].rstrip(" /"), found["unit"].strip()
        if (
            found
            and pattern is _BRACKETS
            and found["unit"].strip() in ("1", "-", "none", "")
            and found["unit"]
        ):
            return (found["name"].strip(), "") if found["unit"].strip() in ("-", "none") else (text, "")
    return text, ""


def labelled(text: str) -> tuple[str, str]:
    """Name and bracket of a column, whatever stands in it, as of ``Temp (out)``; both empty without one."""
    found = _BRACKETS.match(" ".join(text.split()))
    return (found["name"], found["unit"].strip()) if found else ("", "")


def bare_unit(text: str) -> str:
    """A unit out of a row of units, without brackets; empty for what says that there is none."""
    bare = without_brackets(text)
    if _CLOCK.fullmatch(bare) and (_UNIT.match(bare) is None or set(bare.lower()) <= _OF_CLOCKS):
        return ""  # the cells are read as what they look like; mmol/L, mmHg and mm/hr are units
    return "" if bare in ("-", "--", "1", "none") else bare

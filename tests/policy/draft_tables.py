"""Tables that look like real ones, with the roles, types and missing markers that their columns truly have.

All are drawn from the same made-up people, so that age, schooling, work, income and health hang together. Roles follow
what outsiders could know: quasi are demography, places, dates, household and occupation; sensitive are diagnoses,
results, income, debts, beliefs, marks and votes; insensitive are administrative amounts and technical flags. Where
people who know such tables would disagree, several answers count, with | between them.
"""

from __future__ import annotations

import csv
import datetime
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

N_ROWS = 600


@dataclass(frozen=True)
class Truth:
    """One column as a file holds it, and what it truly is."""

    values: list[str]
    role: str
    type: str
    missing: frozenset[str] = frozenset()
    looks: str | None = None  # what the values show it to be, "" if nothing; None: not asked


@dataclass(frozen=True)
class Table:
    """Columns by name, and how they are written."""

    columns: dict[str, Truth]
    delimiter: str = ","
    suffix: str = ".csv"
    options: dict[str, str] = field(default_factory=dict)  # what nobody could find by content
    encoding: str = "utf-8"

    def write(self, path: Path) -> Path:
        """Write the table as the real one would come."""
        path = path.with_suffix(self.suffix)
        rows = zip(*(column.values for column in self.columns.values()), strict=True)
        if self.suffix == ".xlsx":
            import openpyxl

            book = openpyxl.Workbook()
            book.active.title = "read me"
            book.active.append(["made for a test"])
            sheet = book.create_sheet(self.options["sheet"])
            sheet.append(list(self.columns))
            for row in rows:
                sheet.append([int(cell) if cell.isdigit() and str(int(cell)) == cell else cell or None for cell in row])
            book.save(path)
            return path
        with path.open("w", newline="", encoding=self.encoding) as file:
            writer = csv.writer(file, delimiter=self.delimiter)
            writer.writerow(self.columns)
            writer.writerows(rows)
        return path


class People:
    """Made-up people whose attributes depend on each other; everything is an array of *n* entries."""

    def __init__(self, seed: int, n: int = N_ROWS) -> None:
        self.rng = rng = np.random.default_rng(seed)
        self.n = n
        self.age = np.clip(rng.gamma(6, 7.5, n), 18, 96).astype(int)
        self.female = rng.random(n) < 0.52
        self.schooling = np.clip(rng.normal(2.6 - (self.age > 65) * 0.7, 1.1, n), 0, 5).astype(int)
        self.region = rng.choice(9, n, p=np.array([20, 16, 14, 12, 10, 9, 8, 6, 5]) / 100)
        self.work = np.clip(self.schooling * 1.4 + rng.normal(0, 1.5, n), 0, 8).astype(int)
        self.married = (rng.random(n) < np.clip((self.age - 18) / 45, 0, 0.7)).astype(int) + (self.age > 74)
        self.income = np.round(np.exp(rng.normal(7.3 + self.schooling * 0.22 + (self.age > 30) * 0.2, 0.5, n)) * 12)
        self.sick = rng.random(n) < 0.08 + np.clip(self.age - 40, 0, 60) / 120
        self.born = [
            datetime.date(2023, 12, 31) - datetime.timedelta(days=int(a * 365.25 + d))
            for a, d in zip(self.age, rng.integers(0, 365, n), strict=True)
        ]

    def pick(self, options, by=None, sharp: float = 1.0) -> list[str]:
        """Draw one of *options*, of which earlier ones are likelier, or later ones as *by* is larger."""
        options = options.split() if isinstance(options, str) else options
        places = np.arange(len(options))
        if by is None:
            weights = 1.0 / (places + 1.5)
            return [options[i] for i in self.rng.choice(len(options), self.n, p=weights / weights.sum())]
        by = np.asarray(by, float)
        level = (by - by.min()) / max(np.ptp(by), 1e-9) * (len(options) - 1)
        drawn = np.clip(np.rint(level + self.rng.normal(0, sharp, self.n)), 0, len(options) - 1).astype(int)
        return [options[i] for i in drawn]

    def whole(self, low: int, high: int, by=None) -> list[str]:
        """Whole numbers of a skewed spread, which grow with *by*."""
        share = self.rng.beta(1.6, 3.5, self.n)
        if by is not None:
            by = np.asarray(by, float)
            share = (share + (by - by.min()) / max(np.ptp(by), 1e-9)) / 2
        return [str(int(low + (high - low) * part)) for part in share]

    def decimal(self, low: float, high: float, digits: int = 2, by=None) -> list[str]:
        """Decimal numbers, which grow with *by*."""
        return [
            f"{int(x) / 10**digits:.{digits}f}" for x in self.whole(int(low * 10**digits), int(high * 10**digits), by)
        ]

    def keys(self, form: str = "{}", start: int = 100_000, step: int = 7) -> list[str]:
        """A different key for every record, in no order of anything else."""
        numbers = start + step * self.rng.permutation(self.n) + self.rng.integers(0, step, self.n)
        return [form.format(number) for number in numbers]

    def persons(self, form: str = "{}", share: float = 0.7) -> list[str]:
        """Keys of people, some of whom have several records."""
        return [
            form.format(7919 * int(i) % 900_001 + 50_000) for i in self.rng.integers(0, int(self.n * share), self.n)
        ]

    def days(self, first: str, last: str, form: str = "%Y-%m-%d") -> list[str]:
        """Days between two days."""
        start, end = datetime.date.fromisoformat(first), datetime.date.fromisoformat(last)
        chosen = self.rng.integers(0, (end - start).days, self.n)
        return [(start + datetime.timedelta(days=int(day))).strftime(form) for day in chosen]

    def births(self, form: str = "%Y-%m-%d") -> list[str]:
        """Dates of birth."""
        return [day.strftime(form) for day in self.born]

    def sex(self, female: str = "F", male: str = "M") -> list[str]:
        """The sex in two words or codes."""
        return [female if each else male for each in self.female]

    def truth(self, share: float, yes: str = "Yes", no: str = "No") -> list[str]:
        """Yes and no, the first likelier for the sick."""
        odds = share * np.where(self.sick, 1.6, 0.8)
        return [yes if each else no for each in self.rng.random(self.n) < odds]

    def numbers(self, values, digits: int = 0) -> list[str]:
        """An array as texts."""
        return [f"{value:.{digits}f}" for value in values]

    def places(self, form: str, n: int = 40, low: int = 0, high: int = 99_999) -> list[str]:
        """Codes of places, of which some are much larger, each in one region."""
        known = np.sort(self.rng.choice(np.arange(low, high), n, replace=False))
        which = np.clip(self.region * n // 9 + self.rng.geometric(0.3, self.n) - 1, 0, n - 1)
        return [form.format(int(known[place])) for place in which]

    def names(self, given: bool = True) -> list[str]:
        """Names of people."""
        first = self.pick(
            "Ann Ben Carla David Eva Frank Greta Hugo Ida Jan Karin Leo Maria Nils Olga Paul Rosa Sam Tina Uwe"
        )
        last = self.pick("Meier Rossi Nowak Dubois Garcia Jansen Smith Kumar Silva Novak Berg Costa Weber Klein Moreau")
        return [f"{one} {two}" if given else two for one, two in zip(first, last, strict=True)]

    def streets(self, forms: str = "{} Mill Lane|{} High Street|{} Park Road|{} Station Road") -> list[str]:
        """Addresses."""
        return [
            form.format(number) for form, number in zip(self.pick(forms.split("|")), self.whole(1, 140), strict=True)
        ]

    def notes(self, subject: str = "patient") -> list[str]:
        """Free text."""
        ends = self.pick(["asked to come back next week", "felt better than last time", "wants to talk about options"])
        who = self.names()
        return [f"{subject} {a} {b}, case {i % 37} of the list" for i, (a, b) in enumerate(zip(who, ends, strict=True))]

    def gaps(self, values: list[str], *markers: str, share: float = 0.06) -> list[str]:
        """Put each of the markers in place of some values."""
        values = list(values)
        for marker in markers:
            for place in np.flatnonzero(self.rng.random(self.n) < share):
                values[place] = marker
        return values


def quasi(values, kind: str, *missing: str) -> Truth:
    return Truth(values, "quasi", kind, frozenset(missing))


def secret(values, kind: str, *missing: str) -> Truth:
    return Truth(values, "sensitive", kind, frozenset(missing))


def plain(values, kind: str, *missing: str) -> Truth:
    return Truth(values, "insensitive", kind, frozenset(missing))


def naming(values, kind: str = "key", *missing: str) -> Truth:
    return Truth(values, "identifier", kind, frozenset(missing))


def weight(values) -> Truth:
    return Truth(values, "weight", "weight")


def either(role: str, values, kind: str, *missing: str) -> Truth:
    return Truth(values, role, kind, frozenset(missing))


ICD9 = "428 414 786 410 486 427 491 715 682 434 780 996 276 250.8 250.6 250.02 599 584 V57 V58 518 820 577 438"
ICD10 = "I10 E11.9 E11.65 J18.9 I50.9 I21.4 C50.9 C34.1 M54.5 F32.1 F41.1 K35.8 N39.0 S72.0 Z51.1 O80 G40.9 J44.1"
AGREE = ["strongly disagree", "disagree", "neither agree nor disagree", "agree", "strongly agree"]
MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec"
WEEKDAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday"


def household_survey(p: People) -> Table:
    return Table(
        {
            "hhid": naming([f"H{i // 2:05d}" for i in range(p.n)]),
            "person_no": either("identifier|insensitive", p.pick("1 2 3 4"), "number|category|key"),
            "interview_date": either("quasi|insensitive", p.days("2022-03-01", "2022-07-30"), "date"),
            "region": quasi(p.pick("North South East West Centre Islands", p.region), "category"),
            "urban": quasi(p.truth(0.6, "1", "2"), "truth|category"),
            "age": quasi(p.gaps(p.numbers(p.age), "999", share=0.01), "age", "999"),
            "sex": quasi(p.gaps(p.sex("2", "1"), "9", share=0.01), "category", "9"),
            "marital_status": quasi(p.gaps(p.pick("1 2 3 4", p.married), "-9"), "category", "-9"),
            "hh_size": quasi(p.whole(1, 9), "number"),
            "education_level": quasi(p.gaps(p.pick("1 2 3 4 5 6", p.schooling, 0.4), "-9"), "ordered|category", "-9"),
            "employment_status": quasi(p.gaps(p.pick("1 2 3 4 5 6 7"), "-9"), "category", "-9"),
            "net_income": secret(p.gaps(p.numbers(p.income), "-9", "-8"), "number", "-9", "-8"),
            "trust_parliament": secret(p.gaps(p.whole(0, 11), "99", "88"), "ordered|number", "99", "88"),
            "vote_last": secret(p.gaps(p.pick("1 2 3 4 5 6"), "99"), "category", "99"),
            "religion": secret(p.gaps(p.pick("1 2 3 4 7"), "99"), "category", "99"),
            "life_satisfaction": secret(p.pick(AGREE, p.income), "ordered"),
            "self_rated_health": secret(p.gaps(p.pick("1 2 3 4 5", p.age), "-9"), "ordered|category", "-9"),
            "design_weight": weight(p.decimal(0.3, 3.5, 4)),
        }
    )


def census_persons(p: People) -> Table:
    young = p.age < 30
    return Table(
        {
            "SERIALNO": naming([f"2021GQ{i:07d}" for i in p.rng.permutation(p.n)]),
            "SPORDER": either("identifier|insensitive", p.pick("1 2 3 4 5"), "number|category|key"),
            "PUMA": quasi(p.places("{:05d}", 40, 100, 9000), "category|postcode"),
            "ST": quasi(p.pick("06 36 48 12 17 42", p.region), "category"),
            "PWGTP": weight(p.whole(1, 300)),
            "AGEP": quasi(p.numbers(p.age), "age"),
            "SEX": quasi(p.sex("2", "1"), "category"),
            "RAC1P": quasi(p.pick("1 2 6 8 9 3"), "category"),
            "HISP": quasi(p.pick("01 02 03 04 24"), "category"),
            "MAR": quasi(p.pick("5 1 3 2", p.married), "category"),
            "SCHL": quasi(p.pick([f"{i:02d}" for i in range(1, 25)], p.schooling), "category|ordered"),
            "CIT": quasi(p.pick("1 4 5 2 3"), "category"),
            "COW": quasi(p.gaps(p.pick("1 6 3 4 5 7"), "N", share=0.2), "category", "N"),
            "OCCP": quasi(p.gaps(p.places("{:04d}", 60, 10, 9800), "N", share=0.2), "category", "N"),
            "WKHP": either("quasi|insensitive", p.gaps(p.whole(10, 99), "N", share=0.2), "number", "N"),
            "PINCP": secret(p.gaps(p.numbers(p.income * 10), "N", share=0.15), "number", "N"),
            "WAGP": secret(p.gaps(p.numbers(np.where(young, 0, p.income * 9)), "N", share=0.15), "number", "N"),
            "DIS": secret(p.truth(0.2, "1", "2"), "truth|category"),
            "HICOV": either("sensitive|insensitive|quasi", p.truth(0.9, "1", "2"), "truth|category"),
            "JWMNP": either("insensitive|quasi", p.gaps(p.whole(1, 120), "N", share=0.3), "number", "N"),
        }
    )


def encounters(p: People) -> Table:
    bands = [f"[{low}-{low + 10})" for low in range(0, 100, 10)]
    drugs = (
        "metformin repaglinide nateglinide chlorpropamide glimepiride acetohexamide glipizide glyburide tolbutamide "
        "pioglitazone rosiglitazone acarbose miglitol troglitazone tolazamide examide citoglipton insulin "
        "glyburide-metformin glipizide-metformin glimepiride-pioglitazone metformin-rosiglitazone "
        "metformin-pioglitazone"
    )
    rare = [
        ["No"] * p.n if drug in ("examide", "citoglipton") else p.pick("No Steady Up Down") for drug in drugs.split()
    ]
    columns = {
        "encounter_id": naming(p.keys(start=2_278_392, step=311)),
        "patient_nbr": naming(p.persons()),
        "race": quasi(p.gaps(p.pick("Caucasian AfricanAmerican Hispanic Other Asian"), "?"), "category", "?"),
        "gender": quasi(p.sex("Female", "Male"), "category"),
        "age": quasi([bands[min(a // 10, 9)] for a in p.age], "ordered"),
        "weight": quasi(p.gaps(p.pick("[75-100) [50-75) [100-125)"), "?", share=0.95), "ordered", "?"),
        "admission_type_id": plain(p.pick("1 3 2 6 5 8"), "category"),
        "discharge_disposition_id": plain(p.pick("1 3 6 18 2 22 11 5 25"), "category"),
        "admission_source_id": plain(p.pick("7 1 17 4 6 2 5"), "category"),
        "time_in_hospital": either("insensitive|quasi", p.whole(1, 14, p.age), "number"),
        "payer_code": either(
            "insensitive|quasi", p.gaps(p.pick("MC HM SP BC MD CP UN"), "?", share=0.4), "category", "?"
        ),
        "medical_specialty": either(
            "insensitive|quasi|sensitive",
            p.gaps(p.pick("InternalMedicine Emergency/Trauma Cardiology Surgery-General Nephrology"), "?", share=0.5),
            "category",
            "?",
        ),
        "num_lab_procedures": plain(p.whole(1, 110), "number"),
        "num_procedures": plain(p.whole(0, 7), "number"),
        "num_medications": plain(p.whole(1, 70), "number"),
        "number_outpatient": plain(p.whole(0, 12), "number"),
        "number_emergency": plain(p.whole(0, 9), "number"),
        "number_inpatient": plain(p.whole(0, 11), "number"),
        "diag_1": secret(p.gaps(p.pick(ICD9, p.age, 5), "?", share=0.01), "prefix", "?"),
        "diag_2": secret(p.gaps(p.pick(ICD9, p.age, 6), "?", share=0.01), "prefix", "?"),
        "diag_3": secret(p.gaps(p.pick(ICD9, p.age, 7), "?", share=0.02), "prefix", "?"),
        "number_diagnoses": plain(p.whole(1, 16, p.age), "number"),
        "max_glu_serum": secret(p.pick("None Norm >200 >300"), "category|ordered"),
        "A1Cresult": secret(p.pick("None >8 Norm >7"), "category|ordered"),
    }
    columns |= {
        drug: either("insensitive|sensitive", values, "category")
        for drug, values in zip(drugs.split(), rare, strict=True)
    }
    columns |= {
        "change": either("insensitive|sensitive", p.pick("No Ch"), "truth|category"),
        "diabetesMed": either("insensitive|sensitive", p.truth(0.7), "truth"),
        "readmitted": secret(p.pick("NO >30 <30"), "category"),
    }
    return Table(columns)


def bank_marketing(p: People) -> Table:
    work = "blue-collar services admin. housemaid technician self-employed entrepreneur management"
    return Table(
        {
            "age": quasi(p.numbers(p.age), "age"),
            "job": quasi(p.gaps(p.pick(work, p.work), "unknown", share=0.02), "category", "unknown"),
            "marital": quasi(p.pick("single married divorced", p.married), "category"),
            "education": quasi(
                p.gaps(p.pick("primary secondary tertiary", p.schooling), "unknown"), "category|ordered", "unknown"
            ),
            "default": secret(p.truth(0.03, "yes", "no"), "truth"),
            "balance": secret(p.whole(-800, 9000, p.income), "number"),
            "housing": either("sensitive|insensitive|quasi", p.truth(0.5, "yes", "no"), "truth"),
            "loan": secret(p.truth(0.2, "yes", "no"), "truth"),
            "contact": plain(p.gaps(p.pick("cellular telephone"), "unknown", share=0.2), "category", "unknown"),
            "day": either("insensitive|quasi", p.whole(1, 32), "number|category"),
            "month": either("insensitive|quasi", p.pick(MONTHS), "month"),
            "duration": plain(p.whole(5, 2000), "number"),
            "campaign": plain(p.whole(1, 20), "number"),
            "pdays": plain(p.gaps(p.whole(1, 400), "-1", share=0.7), "number", "-1"),
            "previous": plain(p.whole(0, 9), "number"),
            "poutcome": plain(p.gaps(p.pick("failure other success"), "unknown", share=0.7), "category", "unknown"),
            "y": either("insensitive|sensitive", p.truth(0.12, "yes", "no"), "truth"),
        },
        delimiter=";",
    )


def cancer_registry(p: People) -> Table:
    letters = [f"{a}{b} {c}AB" for a, b, c in zip(p.pick("LS BD M S NE"), p.whole(1, 20), p.whole(1, 9), strict=True)]
    return Table(
        {
            "registration_id": naming(p.keys("REG{}")),
            "nhs_number": naming(p.keys(start=4_000_000_000, step=9_999)),
            "surname": naming(p.names(given=False), "text"),
            "date_of_birth": quasi(p.births("%d/%m/%Y"), "date"),
            "sex": quasi(p.sex("2", "1"), "category"),
            "postcode": quasi(letters, "postcode"),
            "ethnicity": quasi(p.gaps(p.pick("A B C D M S"), "Z"), "category", "Z"),
            "deprivation_quintile": either("quasi|insensitive", p.pick("1 2 3 4 5", p.income), "ordered|category"),
            "diagnosis_date": either("quasi|sensitive", p.days("2015-01-01", "2019-12-31", "%d/%m/%Y"), "date"),
            "site_icd10": secret(p.pick("C50.9 C34.1 C61 C18.7 C43.5 C67.9 C56 C25.0 C20 C16.9"), "prefix"),
            "morphology": secret(p.pick("8140 8500 8070 8720 8041 8010"), "category|prefix"),
            "stage": secret(p.gaps(p.pick("1 2 3 4", p.age), "U"), "ordered|category", "U"),
            "grade": secret(p.gaps(p.pick("G1 G2 G3 G4"), "GX"), "ordered|category", "GX"),
            "tumour_size_mm": secret(p.gaps(p.whole(2, 120), "999"), "number", "999"),
            "chemotherapy": secret(p.truth(0.4, "Y", "N"), "truth"),
            "vital_status": either("sensitive|quasi", p.pick("A D", p.age), "category|truth"),
            "survival_days": secret(p.whole(3, 2500), "number"),
        }
    )


def voter_roll(p: People) -> Table:
    return Table(
        {
            "voter_id": naming(p.keys("{:010d}")),
            "last_name": naming(p.names(given=False), "text"),
            "first_name": naming([name.split()[0] for name in p.names()], "text"),
            "res_street_address": naming(p.streets(), "text"),
            "res_city": quasi(p.pick("RALEIGH DURHAM CARY APEX GARNER WAKE_FOREST", p.region), "category"),
            "zip_code": quasi(p.places("{:05d}", 30, 27_000, 28_999), "postcode"),
            "birth_year": quasi(p.numbers([day.year for day in p.born]), "year"),
            "gender_code": quasi(p.gaps(p.sex(), "U"), "category", "U"),
            "race_code": quasi(p.gaps(p.pick("W B A I O"), "U"), "category", "U"),
            "party_cd": secret(p.pick("DEM REP UNA LIB"), "category"),
            "registr_dt": either("quasi|insensitive", p.days("1990-01-01", "2022-12-31", "%m/%d/%Y"), "date"),
            "precinct_desc": quasi(p.places("PCT {:03d}", 40, 1, 700), "category"),
            "status_cd": plain(p.pick("A I R"), "category"),
            "voted_2020": either("sensitive|quasi", p.truth(0.7, "Y", "N"), "truth"),
            "phone_num": naming(p.gaps(p.keys("919{}"), "", share=0.5)),
        },
        delimiter="\t",
        suffix=".tsv",
    )


def payroll_german(p: People) -> Table:
    money = lambda values: [f"{v:,.2f}".replace(",", "x").replace(".", ",").replace("x", ".") for v in values]  # noqa: E731
    return Table(
        {
            "Personalnummer": naming(p.keys("{:06d}")),
            "Nachname": naming(p.names(given=False), "text"),
            "Vorname": naming([name.split()[0] for name in p.names()], "text"),
            "Geburtsdatum": quasi(p.births("%d.%m.%Y"), "date"),
            "Geschlecht": quasi(p.sex("w", "m"), "category"),
            "PLZ": quasi(p.places("{:05d}", 40, 1067, 9999), "postcode"),
            "Wohnort": quasi(p.pick("Dresden Leipzig Chemnitz Zwickau Plauen Görlitz", p.region), "category"),
            "Familienstand": quasi(p.pick("ledig verheiratet verwitwet", p.married), "category"),
            "Staatsangehörigkeit": quasi(p.pick("deutsch polnisch türkisch syrisch"), "category"),
            "Abteilung": quasi(p.pick("Produktion Vertrieb Einkauf IT Verwaltung"), "category"),
            "Eintrittsdatum": quasi(p.days("1995-01-01", "2022-12-31", "%d.%m.%Y"), "date"),
            "Konfession": secret(p.pick("ev rk keine"), "category"),
            "Schwerbehindert": secret(p.truth(0.06, "ja", "nein"), "truth"),
            "Bruttogehalt": secret(money(p.income / 10), "number"),
            "Steuerklasse": either("quasi|sensitive|insensitive", p.pick("1 4 3 5 2"), "category"),
            "Krankheitstage": secret(p.whole(0, 40), "number"),
            "Kostenstelle": plain(p.pick("4100 4200 4300 5100"), "category"),
            "Wochenstunden": either("insensitive|quasi", p.pick(["40,0", "38,5", "20,0", "30,0"]), "number"),
        },
        delimiter=";",
        encoding="cp1252",
    )


def survey_german(p: People) -> Table:
    often = ["nie", "selten", "manchmal", "oft", "immer"]
    agree = ["stimme gar nicht zu", "stimme eher nicht zu", "teils/teils", "stimme eher zu", "stimme voll zu"]
    unsure = "keine Angabe"
    land = ["Bayern", "Nordrhein-Westfalen", "Hessen", "Sachsen", "Berlin", "Saarland"]
    school = ["Hauptschule", "Mittlere Reife", "Abitur", "Hochschulabschluss"]
    return Table(
        {
            "Befragten-Nr": naming(p.keys()),
            "Bundesland": quasi(p.pick(land, p.region), "category"),
            "Alter": quasi(p.gaps(p.numbers(p.age), unsure, share=0.02), "age", unsure),
            "Geschlecht": quasi(p.sex("weiblich", "männlich"), "category"),
            "Schulabschluss": quasi(p.gaps(p.pick(school, p.schooling), unsure), "category|ordered", unsure),
            "Beruf": quasi(
                p.gaps(p.pick("Arbeiter Angestellter Beamter Selbständiger", p.work), unsure), "category", unsure
            ),
            "Haushaltsgröße": quasi(p.whole(1, 7), "number"),
            "Kinder": quasi(p.whole(0, 5), "number"),
            "Nettoeinkommen": secret(p.gaps(p.numbers(p.income / 12), unsure, share=0.15), "number", unsure),
            "Religion": secret(
                p.gaps(p.pick("evangelisch katholisch konfessionslos muslimisch"), unsure), "category", unsure
            ),
            "Wahlabsicht": secret(p.gaps(p.pick("CDU SPD Grüne FDP AfD Linke"), unsure, share=0.2), "category", unsure),
            "Gesundheitszustand": secret(
                p.pick(["sehr gut", "gut", "mittel", "schlecht", "sehr schlecht"], p.age), "ordered"
            ),
            "Kirchgang": secret(p.gaps(p.pick(often, p.age), unsure), "ordered", unsure),
            "Zufriedenheit mit der Demokratie": either("sensitive|insensitive", p.pick(agree, p.income), "ordered"),
            "Gewicht": weight(p.decimal(0.2, 4, 3)),
        },
        delimiter=";",
    )


def stays_french(p: People) -> Table:
    return Table(
        {
            "num_sejour": naming(p.keys()),
            "ipp": naming(p.persons("{:08d}")),
            "nom": naming(p.names(given=False), "text"),
            "date_naissance": quasi(p.births("%d/%m/%Y"), "date"),
            "sexe": quasi(p.sex("2", "1"), "category"),
            "code_postal": quasi(p.places("{:05d}", 40, 1000, 9500), "postcode"),
            "commune": quasi(p.pick("Nice Cannes Antibes Grasse Menton Vence", p.region), "category"),
            "date_entree": quasi(p.days("2022-01-01", "2022-12-31", "%d/%m/%Y"), "date"),
            "mode_entree": plain(p.pick("8 7 6 0"), "category"),
            "mode_sortie": plain(p.pick("8 7 6 9"), "category"),
            "duree_sejour": either("insensitive|quasi", p.whole(0, 45, p.age), "number"),
            "diagnostic_principal": secret(p.pick(ICD10, p.age, 4), "prefix"),
            "ghm": secret(p.pick("05M09 04M05 08C47 14Z14 06C09 23Z02"), "category|prefix"),
            "profession": quasi(
                p.gaps(p.pick("ouvrier employe cadre artisan retraite", p.work), "NR"), "category", "NR"
            ),
            "situation_familiale": quasi(p.pick("celibataire marie veuf", p.married), "category"),
            "montant_facture": plain(p.decimal(90, 15_000), "number"),
        },
        delimiter=";",
    )


def health_spanish(p: People) -> Table:
    return Table(
        {
            "id_encuestado": naming(p.keys()),
            "provincia": quasi(p.pick("Madrid Barcelona Valencia Sevilla Bilbao", p.region), "category"),
            "edad": quasi(p.numbers(p.age), "age"),
            "sexo": quasi(p.sex("mujer", "hombre"), "category"),
            "estado_civil": quasi(p.pick("soltero casado viudo", p.married), "category"),
            "nivel_estudios": quasi(
                p.gaps(p.pick("1 2 3 4 5", p.schooling, 0.5), "98", "99", share=0.03), "ordered|category", "98", "99"
            ),
            "ocupacion": quasi(p.gaps(p.pick("11 12 21 22 31 41 51", p.work), "99"), "category", "99"),
            "nacionalidad": quasi(p.pick("española marroquí rumana"), "category"),
            "ingresos_hogar": secret(p.gaps(p.numbers(p.income / 12), "99998", "99999"), "number", "99998", "99999"),
            "estado_salud": secret(p.pick(["muy bueno", "bueno", "regular", "malo", "muy malo"], p.age), "ordered"),
            "enfermedad_cronica": secret(p.truth(0.3, "Sí", "No"), "truth"),
            "tabaco": secret(p.gaps(p.pick("1 2 3"), "9"), "category", "9"),
            "peso_kg": quasi(p.gaps(p.whole(45, 130), "999"), "number", "999"),
            "altura_cm": quasi(p.gaps(p.whole(145, 200), "999"), "number", "999"),
            "dias_cama": secret(p.whole(0, 15), "number"),
            "factor_elevacion": weight(p.decimal(200, 9000, 3)),
        }
    )


def budget_italian(p: People) -> Table:
    return Table(
        {
            "NQUEST": naming([f"{1000 + i // 2}" for i in range(p.n)]),
            "NORD": either("identifier|insensitive", p.pick("1 2 3 4"), "number|category|key"),
            "ETA": quasi(p.numbers(p.age), "age"),
            "SESSO": quasi(p.sex("2", "1"), "category"),
            "REGIONE": quasi(p.pick("03 12 15 05 09 19 01", p.region), "category"),
            "COMUNE_NASCITA": quasi(p.pick("Roma Milano Napoli Torino Bari Lecce", p.region), "category"),
            "STATO_CIVILE": quasi(p.pick("2 1 3", p.married), "category"),
            "TITOLO_STUDIO": quasi(p.pick("1 2 3 4 5 6", p.schooling), "category|ordered"),
            "PROFESSIONE": quasi(p.gaps(p.pick("1 2 3 4 5 6 7", p.work), "-9"), "category", "-9"),
            "N_COMPONENTI": quasi(p.whole(1, 7), "number"),
            "REDDITO": secret(p.gaps(p.decimal(0, 90_000, 2, p.income), "-9", share=0.08), "number", "-9"),
            "DEBITI": secret(p.decimal(0, 40_000), "number"),
            "RELIGIONE": secret(p.gaps(p.pick("1 2 3"), "9"), "category", "9"),
            "MALATTIA_CRONICA": secret(p.truth(0.3, "si", "no"), "truth"),
            "CASA_PROPRIETA": either("quasi|insensitive", p.truth(0.6, "si", "no"), "truth"),
            "PESO": weight(p.decimal(0.1, 4, 5)),
        }
    )


def patients_dutch(p: People) -> Table:
    place = [f"{int(a)} {b}" for a, b in zip(p.places("{}", 40, 1011, 9999), p.pick("AB CD KL XZ"), strict=True)]
    return Table(
        {
            "patientnummer": naming(p.keys("P{}")),
            "achternaam": naming(p.names(given=False), "text"),
            "geboortedatum": quasi(p.births("%d-%m-%Y"), "date"),
            "geslacht": quasi(p.sex("V", "M"), "category"),
            "postcode": quasi(place, "postcode"),
            "woonplaats": quasi(p.pick("Utrecht Zeist Houten Bunnik Nieuwegein", p.region), "category"),
            "burgerlijke_staat": quasi(p.pick("ongehuwd gehuwd weduwe", p.married), "category"),
            "opleiding": quasi(
                p.gaps(p.pick("vmbo mbo havo hbo wo", p.schooling), "onbekend"), "category|ordered", "onbekend"
            ),
            "beroep": quasi(p.pick("verkoper leraar bouwvakker verpleger", p.work), "category"),
            "huisarts_code": either("insensitive|quasi", p.pick("H12 H15 H21 H33"), "category"),
            "consultdatum": quasi(p.days("2021-01-01", "2021-12-31", "%d-%m-%Y"), "date"),
            "diagnose_icpc": secret(p.pick("R74 U71 K86 T90 L03 P76 A97 S74"), "prefix|category"),
            "bmi": secret(p.gaps(p.decimal(17, 45, 1), "999"), "number", "999"),
            "roken": secret(p.pick("ja nee vroeger"), "category"),
            "bloeddruk_systolisch": secret(p.gaps(p.whole(95, 200, p.age), "-1"), "number", "-1"),
            "inkomen": secret(p.gaps(p.numbers(p.income), "onbekend"), "number", "onbekend"),
            "opmerking": naming(p.notes("patiënt"), "text"),
        },
        delimiter=";",
    )


def registry_polish(p: People) -> Table:
    return Table(
        {
            "pesel": naming(p.keys("{:011d}", 44_051_401_359, 999)),
            "imie": naming([name.split()[0] for name in p.names()], "text"),
            "nazwisko": naming(p.names(given=False), "text"),
            "data_urodzenia": quasi(p.births("%d.%m.%Y"), "date"),
            "plec": quasi(p.sex("K", "M"), "category"),
            "kod_pocztowy": quasi([f"{z[:2]}-{z[2:]}" for z in p.places("{:05d}", 40)], "postcode"),
            "wojewodztwo": quasi(p.pick("mazowieckie śląskie wielkopolskie małopolskie", p.region), "category"),
            "stan_cywilny": quasi(p.pick("wolny żonaty wdowiec", p.married), "category"),
            "wyksztalcenie": quasi(
                p.gaps(p.pick("podstawowe średnie wyższe", p.schooling), "brak danych"),
                "category|ordered",
                "brak danych",
            ),
            "zawod": quasi(
                p.gaps(p.pick("rolnik kierowca nauczyciel lekarz", p.work), "brak danych"), "category", "brak danych"
            ),
            "data_przyjecia": quasi(p.days("2020-01-01", "2020-12-31", "%d.%m.%Y"), "date"),
            "rozpoznanie": secret(p.pick(ICD10, p.age, 4), "prefix"),
            "wynagrodzenie": secret(
                [v.replace(".", ",") for v in p.gaps(p.decimal(2500, 20_000, 2, p.income), "")], "number"
            ),
            "wyznanie": secret(p.pick("rzymskokatolickie prawosławne brak"), "category"),
            "koszt_leczenia": plain([v.replace(".", ",") for v in p.decimal(100, 30_000)], "number"),
        },
        delimiter=";",
    )


def staff_workbook(p: People) -> Table:
    return Table(
        {
            "Employee ID": naming(p.keys("E{}")),
            "Full Name": naming(p.names(), "text"),
            "Email": naming([f"{name.lower().replace(' ', '.')}@firm.example" for name in p.names()], "text"),
            "Date of Birth": quasi(p.births(), "date"),
            "Gender": quasi(p.sex("Female", "Male"), "category"),
            "Department": quasi(p.pick("Sales Finance Research Legal"), "category"),
            "Job Title": quasi(p.pick("Clerk Analyst Manager Director", p.work), "category"),
            "Office": quasi(p.pick("London Leeds Cardiff", p.region), "category"),
            "Hire Date": quasi(p.days("2000-01-01", "2022-12-31"), "date"),
            "Annual Salary": secret(p.numbers(p.income), "number"),
            "Performance Rating": secret(p.pick("1 2 3 4 5", p.income), "ordered|category"),
            "Sick Days": secret(p.whole(0, 30), "number"),
            "Union Member": secret(p.truth(0.2), "truth"),
            "Pay Grade": either("sensitive|insensitive|quasi", p.pick("A1 A2 B1 B2 C1", p.income), "category|ordered"),
            "Cost Centre": plain(p.pick("CC10 CC20 CC30"), "category"),
        },
        suffix=".xlsx",
        options={"sheet": "staff"},
    )


def examination_survey(p: People) -> Table:
    return Table(
        {
            "SEQN": naming(p.numbers(range(83_732, 83_732 + p.n))),
            "RIAGENDR": quasi(p.sex("2", "1"), "category"),
            "RIDAGEYR": quasi(p.numbers(np.minimum(p.age, 80)), "age"),
            "RIDRETH3": quasi(p.pick("3 4 1 6 2 7"), "category"),
            "DMDEDUC2": quasi(
                p.gaps(p.pick("1 2 3 4 5", p.schooling), "7", "9", share=0.02), "category|ordered", "7", "9"
            ),
            "DMDMARTL": quasi(p.gaps(p.pick("5 1 2", p.married), "77", "99", share=0.02), "category", "77", "99"),
            "DMDHHSIZ": quasi(p.whole(1, 8), "number"),
            "INDHHIN2": secret(
                p.gaps(p.whole(1, 15, p.income), "77", "99", share=0.03), "category|ordered", "77", "99"
            ),
            "WTMEC2YR": weight(p.decimal(5000, 180_000, 4)),
            "BPXSY1": secret(p.gaps(p.whole(90, 210, p.age), ""), "number"),
            "BMXBMI": secret(p.gaps(p.decimal(16, 50, 1), ""), "number"),
            "LBXGH": secret(p.gaps(p.decimal(4, 14, 1), ""), "number"),
            "DIQ010": secret(p.gaps(p.pick("2 1 3"), "9", share=0.02), "category", "9"),
            "SMQ020": secret(p.gaps(p.truth(0.4, "1", "2"), "7", "9", share=0.01), "category|truth", "7", "9"),
            "ALQ130": secret(p.gaps(p.whole(1, 12), "777", "999", share=0.02), "number", "777", "999"),
        }
    )


def travel_survey(p: People) -> Table:
    return Table(
        {
            "TripID": naming(p.keys()),
            "HouseholdID": naming([f"{20_000 + i // 3}" for i in range(p.n)]),
            "HomePostcode": quasi(p.places("{:04d}", 40, 3000, 3999), "postcode"),
            "AgeGroup": quasi(p.pick(["18-24", "25-34", "35-44", "45-54", "55-64", "65+"], p.age), "ordered"),
            "Sex": quasi(p.sex("Female", "Male"), "category"),
            "Occupation": quasi(
                p.gaps(p.pick(["Labourer", "Clerk", "Trades", "Manager"], p.work), "Not stated"),
                "category",
                "Not stated",
            ),
            "PersonalIncome": secret(
                p.gaps(p.pick(["Nil", "$1-$299", "$300-$599", "$600-$999", "$1000+"], p.income), "Not stated"),
                "category|ordered",
                "Not stated",
            ),
            "Licence": either("quasi|insensitive", p.truth(0.8), "truth"),
            "Vehicles": either("quasi|insensitive", p.whole(0, 5), "number"),
            "TravelDay": either("quasi|insensitive", p.pick(WEEKDAYS), "weekday"),
            "TravelMonth": either("quasi|insensitive", p.pick("January February March April May June"), "month"),
            "StartHour": plain(p.whole(5, 23), "number|category"),
            "Mode": plain(p.pick("car walk train bus bicycle"), "category"),
            "Purpose": plain(p.pick("work shopping school leisure"), "category"),
            "DistanceKm": plain(p.decimal(0.2, 60, 1), "number"),
            "Minutes": plain(p.gaps(p.whole(2, 120), "-2"), "number", "-2"),
            "TripWeight": weight(p.decimal(1, 90, 3)),
        }
    )


def budget_austrian(p: People) -> Table:
    padded = lambda values: [f" {value} " for value in values]  # noqa: E731
    comma = lambda values: [value.replace(".", ",") for value in values]  # noqa: E731
    return Table(
        {
            "Haushaltsnummer": naming([f"HH{i // 2:04d}" for i in range(p.n)]),
            "Alter": quasi(padded(p.numbers(p.age)), "age"),
            "Geschlecht": quasi(padded(p.sex("W", "M")), "category"),
            "Geburtsjahr": quasi(p.numbers([day.year for day in p.born]), "year"),
            "Postleitzahl": quasi(p.places("{:04d}", 40, 1010, 9990), "postcode"),
            "Bezirk": quasi(p.pick("Innere_Stadt Leopoldstadt Favoriten Meidling Döbling", p.region), "category"),
            "Bildung": quasi(p.pick("Pflichtschule Lehre Matura Universität", p.schooling), "category|ordered"),
            "Erwerbsstatus": quasi(
                p.gaps(p.pick("erwerbstätig Pension arbeitslos", p.age), "k.A."), "category", "k.A."
            ),
            "Erhebungsmonat": either("quasi|insensitive", p.pick("Jänner Februar März April Mai Juni"), "month"),
            "Miete": either("sensitive|insensitive", comma(p.decimal(300, 2200)), "number"),
            "Haushaltseinkommen": secret(
                p.gaps(comma(p.decimal(900, 9000, 2, p.income)), "k.A.", share=0.1), "number", "k.A."
            ),
            "Schulden": secret(comma(p.decimal(0, 90_000)), "number"),
            "Spenden": either("insensitive|sensitive", comma(p.decimal(0, 400)), "number"),
            "Raucher": secret(p.truth(0.25, "ja", "nein"), "truth"),
            "Hochrechnungsfaktor": weight(comma(p.decimal(20, 900, 3))),
        },
        delimiter=";",
    )


TABLES: tuple[Callable[[People], Table], ...] = (
    household_survey,
    census_persons,
    encounters,
    bank_marketing,
    cancer_registry,
    voter_roll,
    payroll_german,
    survey_german,
    stays_french,
    health_spanish,
    staff_workbook,
    budget_austrian,
)
HELD_OUT: tuple[Callable[[People], Table], ...] = (
    budget_italian,
    patients_dutch,
    registry_polish,
    examination_survey,
    travel_survey,
)


# Tables whose names say nothing: what a column is shows in its values alone. ``Truth.looks`` says what must be seen.

SURNAMES = (
    "Smith Johnson Brown Taylor Wilson Evans Thomas Hughes Walker Wright Clarke Harris Ashworth Pemberton Okafor "
    "Drinkwater Featherstone Osei Quigley Tunnicliffe Vaughan Womersley"
)
GIVEN = "Oliver Emily Jack Sophie Harry Jessica George Charlotte Thomas Hannah Daniel Lucy Imran Bronwyn Callum Niamh"
NACHNAMEN = "Müller Schmidt Schneider Fischer Weber Meyer Wagner Becker Schulz Hoffmann Krüger Lange Zimmerer Habicht"
VORNAMEN = "Lukas Anna Felix Lena Maximilian Katharina Jürgen Ursula Stefan Sabine Torben Heike Malte Silke Yusuf Aylin"


def seen(looks: str, role: str, values, kind: str) -> Truth:
    return Truth(values, role, kind, looks=looks)


def _digits(p: People, n: int, *, first: str = "") -> list[str]:
    return [first + "".join(map(str, row)) for row in p.rng.integers(0, 10, (p.n, n - len(first)))]


def _luhn(body: str) -> str:
    total = sum(sum(divmod(int(d) * (2 if i % 2 == 0 else 1), 10)) for i, d in enumerate(reversed(body)))
    return body + str(-total % 10)


def _iban(country: str, body: str) -> str:
    number = int("".join(str(int(c, 36)) for c in body + country + "00"))
    return f"{country}{98 - number % 97:02d}{body}"


def _bsn(p: People) -> list[str]:
    found: list[str] = []
    while len(found) < p.n:
        body = p.rng.integers(0, 10, 8)
        check = int((body * np.arange(9, 1, -1)).sum()) % 11
        if check < 10:
            found.append("".join(map(str, body)) + str(check))
    return found


def _pesel(p: People) -> list[str]:
    bodies = [
        f"{day.year % 100:02d}{day.month + (20 if day.year >= 2000 else 0):02d}{day.day:02d}{i:04d}"
        for day, i in zip(p.born, p.rng.integers(0, 10_000, p.n), strict=True)
    ]
    weights = (1, 3, 7, 9, 1, 3, 7, 9, 1, 3)
    return [body + str(-sum(int(d) * w for d, w in zip(body, weights, strict=True)) % 10) for body in bodies]


def _mails(p: People) -> list[str]:
    hosts = p.pick("example.org mail.example.com post.example.net")
    who = p.names()
    return [f"{n.lower().replace(' ', '.')}{i % 97}@{h}" for i, (n, h) in enumerate(zip(who, hosts, strict=True))]


def _plates(p: People, form: str) -> list[str]:
    letters, digits = p.rng.integers(0, 26, (p.n, 6)), p.rng.integers(1, 10, (p.n, 6))
    return [
        "".join(
            chr(65 + letters[i, j % 6]) if c == "A" else str(digits[i, j % 6]) if c == "9" else c
            for j, c in enumerate(form)
        )
        for i in range(p.n)
    ]


def headless_english(p: People) -> Table:
    flats = p.streets("{} Mill Lane|{} High Street|Flat 2, {} Park Road|{} Station Road|{} Elm Avenue|{}b Castle Close")
    return Table(
        {
            "v01": seen("given names", "identifier", p.pick(GIVEN), "text"),
            "v02": seen("family names", "identifier", p.pick(SURNAMES), "text"),
            "v03": seen("e-mail addresses", "identifier", _mails(p), "text"),
            "v04": seen(
                "telephone numbers", "identifier", ["+44 7" + d[:3] + " " + d[3:] for d in _digits(p, 9)], "key|text"
            ),
            "v05": seen("street addresses", "identifier", flats, "text"),
            "v06": seen("postcodes", "quasi", _plates(p, "AA9 9AA"), "postcode"),
            "v07": seen("national insurance numbers", "identifier", _plates(p, "JK999999C"), "key"),
            "v08": seen("dates of birth", "quasi", p.births("%d/%m/%Y"), "date"),
            "v09": seen("licence plates", "identifier", _plates(p, "AA99 AAA"), "key|text"),
            "v10": either("insensitive|quasi", p.truth(0.3, "Y", "N"), "truth"),
            "v11": either("insensitive|quasi", p.whole(1, 9), "number"),
        }
    )


def headless_american(p: People) -> Table:
    ssn = [f"{a:03d}-{b:02d}-{c:04d}" for a, b, c in p.rng.integers([100, 10, 1000], [650, 99, 9999], (p.n, 3))]
    return Table(
        {
            "a": seen("social security numbers", "identifier", ssn, "key"),
            "b": seen(
                "names of people",
                "identifier",
                [f"{m}, {n}" for n, m in zip(p.pick(GIVEN), p.pick(SURNAMES), strict=True)],
                "text",
            ),
            "c": seen(
                "telephone numbers",
                "identifier",
                [f"({x[:3]}) {x[3:6]}-{x[6:]}" for x in _digits(p, 10, first="5")],
                "key|text",
            ),
            "d": seen("payment card numbers", "identifier", [_luhn(x) for x in _digits(p, 15, first="4")], "key"),
            "e": seen("web addresses", "identifier", p.keys("https://example.org/people/{}"), "text|key"),
            "f": seen(
                "IP addresses",
                "identifier",
                [".".join(map(str, row)) for row in p.rng.integers(1, 255, (p.n, 4))],
                "key|text",
            ),
            "g": seen(
                "MAC addresses",
                "identifier",
                [":".join(f"{x:02x}" for x in row) for row in p.rng.integers(0, 256, (p.n, 6))],
                "key",
            ),
            "h": seen("file names", "identifier", p.keys("IMG_{}.jpg"), "key|text"),
            "i": either("quasi|insensitive|sensitive", p.days("2021-01-01", "2023-12-30"), "date"),
            "j": seen(
                "remarks of several words",
                "identifier",
                p.notes("pt")[:300] + p.pick(["doing well", "see chart", "none today, call back", "ok"])[:300],
                "text",
            ),
        }
    )


def headless_german(p: People) -> Table:
    strassen = [
        f"{s} {n}"
        for s, n in zip(
            p.pick(["Hauptstraße", "Gartenweg", "Lindenallee", "Am Markt", "Bahnhofstr.", "Schulgasse"]),
            p.whole(1, 90),
            strict=True,
        )
    ]
    return Table(
        {
            "feld1": seen("family names", "identifier", p.pick(NACHNAMEN), "text"),
            "feld2": seen("given names", "identifier", p.pick(VORNAMEN), "text"),
            "feld3": seen("street addresses", "identifier", strassen, "text"),
            "feld4": seen("bank account numbers (IBAN)", "identifier", [_iban("DE", x) for x in _digits(p, 18)], "key"),
            "feld5": seen(
                "telephone numbers", "identifier", [f"0{x[:3]}/{x[3:]}" for x in _digits(p, 10, first="17")], "key|text"
            ),
            "feld6": seen("dates of birth", "quasi", p.births("%d.%m.%Y"), "date"),
            "feld7": seen("licence plates", "identifier", _plates(p, "AA-AA 999"), "key|text"),
            "feld8": either("insensitive|quasi", p.pick("rot blau grün gelb"), "category"),
        },
        delimiter=";",
    )


def headless_european(p: People) -> Table:
    dni = [f"{x}{'TRWAGMYFPDXBNJZSQVHLCKE'[int(x) % 23]}" for x in _digits(p, 8)]
    nir = [f"{x}{97 - int(x) % 97:02d}" for x in _digits(p, 13, first="1")]
    return Table(
        {
            "x1": seen("Dutch citizen service numbers (BSN)", "identifier", _bsn(p), "key"),
            "x2": seen("Spanish identity numbers (DNI, NIE)", "identifier", dni, "key"),
            "x3": seen("Polish identity numbers (PESEL)", "identifier", _pesel(p), "key"),
            "x4": seen("French social security numbers (NIR)", "identifier", nir, "key"),
            "x5": seen(
                "bank account numbers (IBAN)", "identifier", [_iban("NL", "ABNA" + x) for x in _digits(p, 10)], "key"
            ),
            "x6": seen(
                "IP addresses",
                "identifier",
                ["2001:db8::" + ":".join(f"{x:x}" for x in row) for row in p.rng.integers(1, 65535, (p.n, 3))],
                "key|text",
            ),
            "x7": seen(
                "street addresses",
                "identifier",
                [
                    f"{n} {s}"
                    for n, s in zip(
                        p.whole(1, 60),
                        p.pick(["rue des Lilas", "avenue Foch", "place du Marché", "bd Victor Hugo"]),
                        strict=True,
                    )
                ],
                "text",
            ),
            "x8": seen("keys of one shape", "identifier", p.persons("MRN-{:07d}"), "key"),
            "x9": seen("postcodes", "quasi", _plates(p, "9999 AA"), "postcode"),
        }
    )


def lookalikes(p: People) -> Table:
    """Nothing here names anybody: short codes, towns, firms, versions, amounts and measures."""
    return Table(
        {
            "p1": seen(
                "",
                "insensitive|quasi",
                p.pick("Paris London Berlin Madrid Rome Florence Vienna Austin Charlotte Houston Leeds"),
                "category",
            ),
            "p2": seen(
                "", "insensitive|quasi", p.pick("Baker Cook Miller Teacher Driver Nurse Clerk Farmer"), "category"
            ),
            "p3": seen("", "insensitive|quasi", p.pick("2.1.0 2.1.3 2.2.0 3.0.1"), "category"),
            "p4": seen("", "insensitive|quasi", p.pick("A-12 A-13 B-07 C-99 D-01"), "category"),
            "p5": seen("", "insensitive|quasi|sensitive", p.whole(100_000_000, 999_999_999), "number|key|category"),
            "p6": seen("", "insensitive|quasi", p.decimal(0, 100, 2), "number"),
            "p7": seen("", "insensitive|quasi", p.pick("May June April August"), "month|category"),
            "p8": seen(
                "",
                "insensitive|quasi",
                p.pick(["North Ward", "South Ward", "St Mary", "St Thomas", "King George", "Queen Charlotte"]),
                "category",
            ),
            "p9": seen("", "quasi|insensitive", p.days("2022-01-01", "2023-12-30"), "date"),
            "p10": seen("", "sensitive|quasi", p.pick(ICD10), "prefix"),
        }
    )


HEADLESS: tuple[Callable[[People], Table], ...] = (
    headless_english, headless_american, headless_german, headless_european, lookalikes,
)  # fmt: skip


def make_table(maker: Callable[[People], Table]) -> Table:
    """Draw one table; the same each time."""
    return maker(People(sum(map(ord, maker.__name__))))

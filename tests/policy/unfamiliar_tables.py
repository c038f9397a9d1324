"""Ten more tables with the roles that their columns truly have, written before the code that drafts policies for them.

They have everything by which drafts were seen to fail: keys of people, households and companies that repeat, body
weights and survey weights under the same word, ages of 99, ordered classes, days of a month, dates in several formats,
more quasi-identifiers than a dozen, and files in Latin-1.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable

import numpy as np
from tests.policy.draft_tables import ICD10, People, Table, either, naming, plain, quasi, secret, weight

AGREE = ["strongly disagree", "disagree", "undecided", "agree", "strongly agree"]


def calibrated(p: People, mean: float = 1.0, digits: int = 4) -> list[str]:
    """Survey weights: positive, skewed, with the given mean."""
    drawn = p.rng.lognormal(0, 0.45, p.n)
    return p.numbers(np.maximum(drawn * mean / drawn.mean(), 10.0**-digits), digits)


def body_weight(p: People, digits: int = 0) -> list[str]:
    """Kilograms of adults."""
    return p.numbers(np.clip(p.rng.normal(70 + 12 * ~p.female, 13, p.n), 42, 160), digits)


def groups(p: People, sizes: tuple[int, ...], form: str = "{}", start: int = 1000) -> list[str]:
    """Keys that repeat: the next so many records, one of *sizes*, have the same one; in no order of the file."""
    drawn = np.repeat(np.arange(p.n), p.rng.choice(sizes, p.n))[: p.n]
    numbers = start + 7919 * p.rng.permutation(drawn) % 99_991
    return [form.format(int(number)) for number in numbers]


def moments(p: People, first: str, *forms: str) -> list[str]:
    """Moments of three years, written in the given formats, of which earlier ones are likelier."""
    start = datetime.datetime.fromisoformat(first)
    minutes = p.rng.integers(0, 3 * 365 * 24 * 60, p.n)
    return [
        (start + datetime.timedelta(minutes=int(minute))).strftime(form)
        for minute, form in zip(minutes, p.pick(list(forms)), strict=True)
    ]


def accidents_german(p: People) -> Table:
    hurt = ["unverletzt", "leicht verletzt", "schwer verletzt", "getötet"]
    return Table(
        {
            "UnfallID": naming(groups(p, (1, 2, 2, 3), "U{:06d}")),
            "Beteiligter": either("identifier|insensitive|quasi", p.pick("1 2 3"), "number|category|key"),
            "Unfalldatum": quasi(p.days("2021-01-01", "2022-12-31", "%d.%m.%Y"), "date"),
            "Uhrzeit": either("quasi|insensitive", p.whole(0, 24), "number|category"),
            "Wochentag": either("quasi|insensitive", p.pick("Mo Di Mi Do Fr Sa So"), "weekday"),
            "Tag": either("quasi|insensitive", p.whole(1, 32), "number"),
            "Landkreis": quasi(p.pick("Ansbach Fürth Roth Hof Coburg Kronach Lichtenfels", p.region), "category"),
            "Gemeindeschlüssel": quasi(p.places("09{:06d}", 60, 100_000, 799_999), "category|postcode|prefix|number"),
            "Straßenklasse": either(
                "insensitive|quasi", p.pick(["Gemeindestraße", "Landesstraße", "Bundesstraße", "Autobahn"]), "category"
            ),
            "Lichtverhältnisse": plain(p.pick("Tageslicht Dämmerung Dunkelheit"), "category"),
            "Alter": quasi(p.gaps(p.numbers(p.age), "99", share=0.04), "age", "99"),
            "Geschlecht": quasi(p.gaps(p.sex("w", "m"), "k.A.", share=0.02), "category", "k.A."),
            "Gewicht": quasi(p.gaps(body_weight(p), "999", share=0.03), "number", "999"),
            "Staatsangehörigkeit": quasi(p.pick("deutsch türkisch polnisch rumänisch"), "category"),
            "Fahrzeugart": either("quasi|insensitive", p.pick("Pkw Fahrrad Krad Lkw Fußgänger"), "category"),
            "Führerschein seit": quasi(p.numbers(np.minimum(2022 - p.age + 19, 2021)), "year"),
            "Alkoholisiert": secret(p.truth(0.08, "ja", "nein"), "truth"),
            "Verletzungsschwere": secret(p.pick(hurt, p.age), "category|ordered"),
            "Unfallfolgen": secret(p.pick(["keine", "ambulant", "stationär", "Reha"], p.age), "category|ordered"),
            "Hauptschuld": secret(p.truth(0.5, "ja", "nein"), "truth"),
            "Sachschaden": plain(p.gaps(p.whole(0, 40_000), "-1"), "number", "-1"),
        },
        delimiter=";",
        encoding="cp1252",
    )


def company_survey(p: People) -> Table:
    rate = lambda: p.pick(AGREE, p.rng.normal(0, 1, p.n))  # noqa: E731
    bands = ["<1000", "1000-1999", "2000-2999", "3000-4999", "5000+"]
    return Table(
        {
            "company": naming(groups(p, (3, 6, 12, 25))),
            "respondent": naming(p.keys()),
            "sector": either("quasi|insensitive", p.pick("construction retail health transport education"), "category"),
            "company_size": either("quasi|insensitive", p.pick(["1-9", "10-49", "50-249", "250+"]), "ordered"),
            "region": quasi(p.pick("North East South West Centre", p.region), "category"),
            "age_class": quasi(
                p.pick(["under 25", "25 to 34", "35 to 44", "45 to 54", "55 and over"], p.age), "ordered"
            ),
            "gender": quasi(p.gaps(p.sex("woman", "man"), "no answer", share=0.02), "category", "no answer"),
            "education": quasi(p.pick("primary secondary vocational tertiary", p.schooling), "category|ordered"),
            "citizenship": quasi(p.pick(["national", "EU", "other"]), "category"),
            "occupation": quasi(p.pick("labourer driver clerk nurse engineer manager", p.work), "category"),
            "contract_type": either("quasi|insensitive", p.pick("permanent fixed-term agency"), "category"),
            "years_employed": either("quasi|insensitive", p.whole(0, 40, p.age), "number"),
            "monthly_salary": secret(p.gaps(p.pick(bands, p.income), "refused"), "ordered", "refused"),
            "job_satisfaction": secret(rate(), "ordered"),
            "trust_in_management": secret(rate(), "ordered"),
            "stress_level": secret(p.pick("low medium high", p.rng.normal(0, 1, p.n)), "ordered"),
            "bullied": either("sensitive|insensitive", p.truth(0.1, "yes", "no"), "truth"),
            "union_member": secret(p.truth(0.25, "yes", "no"), "truth"),
            "accident_at_work": secret(p.truth(0.05, "yes", "no"), "truth"),
            "interview_minutes": plain(p.whole(8, 55), "number"),
            "wgt_calibrated": weight(calibrated(p)),
        }
    )


def health_survey_mexican(p: People) -> Table:
    often = ["nunca", "casi nunca", "a veces", "casi siempre", "siempre"]
    bands = ["menos de 2000", "de 2000 a 4999", "de 5000 a 9999", "10000 o más"]
    return Table(
        {
            "folio_hogar": naming(groups(p, (2, 3, 4), "{:06d}")),
            "renglon": either("identifier|insensitive|quasi", p.pick("1 2 3 4 5"), "number|category|key"),
            "entidad": quasi(p.pick("Jalisco Oaxaca Puebla Sonora Yucatán", p.region), "category"),
            "estrato": either("insensitive|quasi", p.pick("1 2 3 4", p.income), "category|ordered|number"),
            "sexo": quasi(p.sex("2", "1"), "category"),
            "edad": quasi(p.gaps(p.numbers(p.age), "999", share=0.02), "age", "999"),
            "parentesco": quasi(p.pick("jefe cónyuge hijo otro"), "category"),
            "estado_conyugal": quasi(p.pick(["soltero", "casado", "unión libre", "viudo"], p.married), "category"),
            "escolaridad": quasi(p.pick("0 1 2 3 4 5 6 7", p.schooling), "category|ordered|number"),
            "lengua_indigena": quasi(p.truth(0.08, "sí", "no"), "truth"),
            "ocupacion": quasi(p.gaps(p.pick("campesino obrero empleado comerciante", p.work), "ns/nc"),
                               "category", "ns/nc"),
            "ingreso_mensual": secret(p.gaps(p.pick(bands, p.income), "no contesta"), "ordered", "no contesta"),
            "peso": quasi(body_weight(p, 1), "number"),
            "talla": quasi(p.numbers(np.clip(p.rng.normal(163, 9, p.n), 140, 200), 1), "number"),
            "diabetes": secret(p.truth(0.12, "1", "2"), "truth|category"),
            "hipertension": secret(p.truth(0.2, "1", "2"), "truth|category"),
            "fuma_actualmente": secret(p.truth(0.18, "sí", "no"), "truth"),
            "consumo_alcohol": secret(p.pick(often, p.rng.normal(0, 1, p.n)), "ordered"),
            "dia_entrevista": either("quasi|insensitive", p.whole(1, 32), "number"),
            "ponderador": weight(calibrated(p, 1800, 2)),
        }
    )  # fmt: skip


def panel_french(p: People) -> Table:
    bands = ["moins de 1000", "1000 à 1999", "2000 à 2999", "3000 à 4999", "5000 et plus"]
    content = ["pas du tout satisfait", "plutôt pas satisfait", "plutôt satisfait", "tout à fait satisfait"]
    return Table(
        {
            "id_menage": naming(groups(p, (2, 3, 4, 6), "M{:05d}")),
            "id_individu": naming(p.persons("{:07d}", 0.4)),
            "vague": plain(p.pick("1 2 3"), "number|category|ordered"),
            "date_entretien": either("quasi|insensitive", p.days("2019-01-01", "2021-12-30", "%d/%m/%Y"), "date"),
            "jour": either("quasi|insensitive", p.whole(1, 32), "number"),
            "departement": quasi(p.pick("13 31 33 35 59 69", p.region), "category"),
            "annee_naissance": quasi(p.numbers([day.year for day in p.born]), "year"),
            "sexe": quasi(p.sex("femme", "homme"), "category"),
            "nationalite": quasi(p.pick("française européenne autre"), "category"),
            "situation_matrimoniale": quasi(p.pick("célibataire marié veuf", p.married), "category"),
            "niveau_etudes": quasi(p.pick(["brevet", "CAP", "bac", "bac+2", "bac+5"], p.schooling), "category|ordered"),
            "profession": quasi(p.gaps(p.pick("agriculteur ouvrier employé cadre", p.work), "NSP"), "category", "NSP"),
            "nb_enfants": quasi(p.pick("0 1 2 3 4"), "number|category"),
            "tranche_revenu": secret(p.gaps(p.pick(bands, p.income), "refus"), "ordered", "refus"),
            "etat_sante": secret(p.pick(["très bon", "bon", "moyen", "mauvais"], p.age), "ordered"),
            "maladie_chronique": secret(p.truth(0.3, "oui", "non"), "truth"),
            "satisfaction_vie": either("sensitive|insensitive", p.pick(content, p.income), "ordered"),
            "vote_premier_tour": secret(p.gaps(p.pick("A B C D E"), "refus"), "category", "refus"),
            "poids": quasi(p.gaps(body_weight(p), "", share=0.05), "number"),
            "poids_longitudinal": weight(calibrated(p, 1.0, 6)),
        },
        delimiter=";",
    )


def cohort_visits(p: People) -> Table:
    who = p.rng.permutation(np.repeat(np.arange(150), 4))
    of = lambda values: [values[person] for person in who]  # noqa: E731
    return Table(
        {
            "subject": naming([str(1001 + person) for person in who]),
            "visit": either("quasi|insensitive", p.pick("0 3 6 12"), "number|category|ordered"),
            "visit_date": quasi(p.days("2019-01-01", "2020-12-31"), "date"),
            "site": quasi(of(p.pick("01 02 03 04 05")), "category"),
            "arm": plain(of(p.pick("A B")), "category"),
            "sex": quasi(of(p.sex("female", "male")), "category"),
            "birthyr": quasi(of(p.numbers([day.year for day in p.born])), "year"),
            "race": quasi(of(p.pick("white black asian other")), "category"),
            "marital": quasi(of(p.pick("single married widowed", p.married)), "category"),
            "height": quasi(of(p.numbers(np.clip(p.rng.normal(170, 9, p.n), 145, 204))), "number"),
            "weight": quasi(body_weight(p, 1), "number"),
            "sbp": secret(p.gaps(p.whole(95, 190, p.age), "-9"), "number", "-9"),
            "ldl": secret(p.gaps(p.whole(50, 220), "-9"), "number", "-9"),
            "smoker": secret(p.pick("never former current"), "category|ordered"),
            "pain": secret(p.pick("none mild moderate severe", p.rng.normal(0, 1, p.n)), "ordered"),
            "adverse_event": secret(p.pick("none rash nausea dizziness"), "category"),
            "diagnosis": secret(p.pick(ICD10, p.age, 4), "prefix"),
            "outcome": secret(p.pick("improved unchanged worse died"), "category|ordered"),
            "dose_mg": plain(p.pick("50 100 200"), "number|category"),
            "lab_batch": plain(p.pick("L01 L02 L03"), "category"),
        }
    )


def staff_by_year(p: People) -> Table:
    who = p.rng.permutation(np.repeat(np.arange(200), 3))
    of = lambda values: [values[person] for person in who]  # noqa: E731
    return Table(
        {
            "empno": naming([str(70_000 + 37 * int(person)) for person in who]),
            "payroll_year": either("insensitive|quasi", p.pick("2020 2021 2022"), "year"),
            "surname": naming(of(p.names(given=False)), "text"),
            "birth_date": quasi(of(p.births("%d-%m-%Y")), "date"),
            "gender": quasi(of(p.sex()), "category"),
            "marital_status": quasi(of(p.pick("single married divorced widowed", p.married)), "category"),
            "nationality": quasi(of(p.pick("GB IE PL IN NG")), "category"),
            "education": quasi(of(p.pick(["school", "college", "bachelor", "master"], p.schooling)), "category"),
            "hire_date": quasi(of(p.days("1998-01-01", "2019-12-31", "%d-%m-%Y")), "date"),
            "dept": quasi(of(p.pick("finance sales stores transport legal")), "category"),
            "job_title": quasi(of(p.pick("clerk driver buyer analyst manager", p.work)), "category"),
            "office": quasi(of(p.pick("Leeds Hull York Derby", p.region)), "category"),
            "fte": plain(p.pick("1.0 0.8 0.5"), "number|category"),
            "shift": plain(p.pick("day late night"), "category"),
            "base_pay": secret(p.numbers(p.income), "number"),
            "bonus": secret(p.gaps(p.whole(0, 9000), "0", share=0.5), "number"),
            "appraisal": secret(p.pick(["below", "meets", "exceeds"]), "category|ordered"),
            "sick_days": secret(p.whole(0, 40), "number"),
            "disciplinary": secret(p.truth(0.03, "Y", "N"), "truth"),
            "leaving_reason": either("sensitive|insensitive", p.gaps(p.pick("resigned retired dismissed"), "n/a"),
                                     "category", "n/a"),
        }
    )  # fmt: skip


def customers(p: People) -> Table:
    return Table(
        {
            "custid": naming(p.persons("{:08d}", 0.5)),
            "memberid": naming(p.persons("{}", 0.45)),
            "caseid": naming(p.keys()),
            "order_date": quasi(p.days("2022-01-01", "2023-06-30", "%m/%d/%Y"), "date"),
            "zip": quasi(p.places("{:05d}", 40, 10_001, 14_999), "postcode"),
            "city": quasi(p.pick("Albany Utica Troy Rome Ithaca", p.region), "category"),
            "yob": quasi(p.numbers([day.year for day in p.born]), "year"),
            "gender": quasi(p.gaps(p.sex(), "unknown", share=0.04), "category", "unknown"),
            "marital": quasi(p.gaps(p.pick("S M W", p.married), "?"), "category", "?"),
            "occupation": quasi(p.gaps(p.pick("trade office health retired", p.work), "unknown"),
                                "category", "unknown"),
            "household_size": quasi(p.pick("1 2 3 4 5 6"), "number|category"),
            "homeowner": quasi(p.truth(0.6, "Y", "N"), "truth"),
            "income_class": secret(p.pick(["<25k", "25k-49k", "50k-99k", "100k+"], p.income), "ordered|category"),
            "credit_score": secret(p.whole(480, 830, p.income), "number"),
            "payment_default": secret(p.truth(0.05, "Y", "N"), "truth"),
            "segment": plain(p.pick("low medium high"), "ordered|category"),
            "channel": plain(p.pick("web store phone"), "category"),
            "basket_total": plain(p.decimal(5, 900), "number"),
            "discount": plain(p.pick("0 5 10 15"), "number|category"),
            "returned": plain(p.truth(0.1, "Y", "N"), "truth"),
        }
    )  # fmt: skip


def census_excerpt(p: People) -> Table:
    """The 24 columns of an excerpt of the American Community Survey that NIST made for comparisons of methods."""
    area = np.clip(p.region * 2 + p.rng.integers(0, 3, p.n), 0, 19)
    density = np.round(p.rng.permutation(np.geomspace(40, 21_000, 20)), 1)
    industry = p.places("{}", 60, 170, 9_899)
    decile = np.minimum(np.argsort(np.argsort(p.income)) * 10 // p.n, 9)
    limited = lambda share: p.truth(share, "1", "2")  # noqa: E731
    return Table(
        {
            "PUMA": quasi([f"{one // 5 + 1:02d}-{100 * one + 100:05d}" for one in area], "category|postcode|key"),
            "AGEP": quasi(p.numbers(p.age), "age"),
            "SEX": quasi(p.sex("2", "1"), "category"),
            "MSP": quasi(p.gaps(p.pick("6 1 2 3 4 5"), "N", share=0.05), "category", "N"),
            "HISP": quasi(p.pick("0 1 2 3 4"), "category|number"),
            "RAC1P": quasi(p.pick("1 2 6 8 9"), "category"),
            "NOC": quasi(p.gaps(p.pick("0 1 2 3 4 5"), "N", share=0.1), "number|category", "N"),
            "NPF": quasi(p.gaps(p.pick("2 3 4 5 6 7"), "N", share=0.2), "number|category", "N"),
            "HOUSING_TYPE": either("quasi|insensitive", p.pick("1 2 3"), "category|number"),
            "OWN_RENT": either("quasi|insensitive", p.pick("1 2 0"), "category|number"),
            "DENSITY": quasi([str(density[one]) for one in area], "number"),
            "INDP": quasi(p.gaps(industry, "N", share=0.25), "category|number", "N"),
            "INDP_CAT": quasi(p.gaps([str(int(one) // 600) for one in industry], "N", share=0.25), "category|number",
                              "N"),
            "EDU": quasi(p.pick([str(i) for i in range(1, 13)], p.schooling), "ordered|category|number"),
            "PINCP": secret(p.gaps(p.numbers(p.income), "N", share=0.1), "number", "N"),
            "PINCP_DECILE": secret(p.gaps(p.numbers(decile), "N", share=0.1), "number|category|ordered", "N"),
            "POVPIP": secret(p.gaps(p.whole(0, 502, p.income), "N", share=0.05), "number", "N"),
            "DVET": either("sensitive|quasi", p.gaps(p.pick("6 1 2 3 4 5"), "N", share=0.6), "category", "N"),
            "DREM": secret(limited(0.1), "truth|category"),
            "DPHY": secret(limited(0.15), "truth|category"),
            "DEYE": secret(limited(0.05), "truth|category"),
            "DEAR": secret(limited(0.07), "truth|category"),
            "PWGTP": weight(calibrated(p, 100, 0)),
            "WGTP": either("weight|insensitive", calibrated(p, 95, 0), "weight"),
        }
    )  # fmt: skip


def police_incidents(p: People) -> Table:
    where = ["street", "residence", "parking lot", "school", "bar"]
    done = ["burglary", "assault", "vandalism", "drug possession", "robbery", "fraud"]
    return Table(
        {
            "incident_no": naming(groups(p, (1, 1, 2, 3), "22-{:06d}")),
            "reported": either(
                "quasi|identifier",
                moments(p, "2020-01-01", "%Y-%m-%d %H:%M", "%m/%d/%Y %I:%M %p", "%d.%m.%Y"),
                "date",
            ),
            "occurred": either("quasi|identifier", moments(p, "2020-01-01", "%d/%m/%Y %H:%M"), "date"),
            "entered": either("quasi|identifier", moments(p, "2020-01-01", "%Y-%m-%d", "%d.%m.%Y", "%b %d, %Y"),
                              "date"),
            "hour": either("quasi|insensitive", p.whole(0, 24), "number"),
            "day_of_month": either("quasi|insensitive", p.whole(1, 32), "number"),
            "beat": quasi(p.places("{}", 24, 101, 899), "category|number"),
            "district": quasi(p.pick("central harbor north east west", p.region), "category"),
            "block_address": either("identifier|quasi", p.streets("{}00 block of Elm St|{}00 block of Mill Rd"),
                                    "text|category"),
            "premise": either("insensitive|quasi", p.pick(where), "category"),
            "victim_age": quasi(p.gaps(p.numbers(p.age), "999", share=0.05), "age", "999"),
            "victim_sex": quasi(p.gaps(p.sex(), "X", share=0.03), "category"),
            "victim_race": quasi(p.gaps(p.pick("W B H A"), "unk"), "category", "unk"),
            "relationship": either("quasi|sensitive", p.pick("stranger acquaintance spouse parent"), "category"),
            "suspect_age": quasi(p.gaps(p.numbers(np.clip(p.age - 9, 12, 80)), "99", share=0.2), "age", "99"),
            "officer_id": naming(p.pick([str(4_100 + 3 * i) for i in range(80)]), "key|number"),
            "offense": secret(p.pick(done), "category"),
            "weapon": either("sensitive|insensitive", p.gaps(p.pick("none knife firearm hands"), "unk"),
                             "category", "unk"),
            "injury": secret(p.pick("none minor serious fatal"), "category|ordered"),
            "arrest_made": secret(p.truth(0.2, "Y", "N"), "truth"),
            "case_disposition": either("sensitive|insensitive", p.pick("open cleared closed unfounded"), "category"),
            "property_loss": plain(p.gaps(p.whole(0, 8000), "-1"), "number", "-1"),
        }
    )  # fmt: skip


def registry_italian(p: People) -> Table:
    stages = ["stadio I", "stadio II", "stadio III", "stadio IV"]
    return Table(
        {
            "codice_paziente": naming(p.persons("RT{:06d}", 0.6)),
            "età": quasi(p.gaps(p.numbers(p.age), "999", share=0.02), "age", "999"),
            "sesso": quasi(p.gaps(p.sex("F", "M"), "non noto", share=0.02), "category", "non noto"),
            "città": quasi(p.pick("Forlì Cantù Nardò Patti Saronno Mondovì", p.region), "category"),
            "CAP": quasi(p.places("{:05d}", 40, 10_010, 98_168), "postcode|category|number"),
            "cittadinanza": quasi(p.gaps(p.pick("italiana romena albanese cinese"), "n.d."), "category", "n.d."),
            "stato_civile": quasi(p.gaps(p.pick("nubile/celibe coniugato vedovo", p.married), "n.d."),
                                  "category", "n.d."),
            "titolo_di_studio": quasi(p.gaps(p.pick("elementare media diploma laurea", p.schooling), "n.d."),
                                      "category|ordered", "n.d."),
            "professione": quasi(p.gaps(p.pick("operaio impiegato dirigente pensionato", p.work), "?"),
                                 "category", "?"),
            "data_diagnosi": either("quasi|sensitive", p.gaps(p.days("2015-01-01", "2019-12-30", "%d/%m/%Y"), ""),
                                    "date"),
            "sede_tumore": secret(p.pick("C50.9 C34.1 C61 C18.7 C43.5 C67.9"), "prefix"),
            "stadio": secret(p.gaps(p.pick(stages, p.age), "non noto"), "category|ordered", "non noto"),
            "terapia": secret(p.gaps(p.pick("chirurgia chemioterapia radioterapia"), "-"), "category", "-"),
            "esito": secret(p.pick("vivo deceduto perso"), "category"),
            "causa_di_morte": secret(p.gaps(p.pick("tumore cardiaca altra"), "", share=0.5), "category"),
            "fumatore": secret(p.gaps(p.pick("mai ex attuale"), "?"), "category|ordered", "?"),
            "peso": quasi(p.gaps(body_weight(p), "-9"), "number", "-9"),
            "altezza": quasi(p.gaps(p.numbers(np.clip(p.rng.normal(168, 9, p.n), 145, 200)), "-9"), "number", "-9"),
            "reparto": either("insensitive|quasi", p.pick("oncologia chirurgia medicina"), "category"),
            "costo_ricovero": plain(p.decimal(300, 20_000), "number"),
            "id_famiglia": naming(groups(p, (1, 2, 3), "F{:05d}")),
        },
        delimiter=";",
        encoding="latin-1",
    )  # fmt: skip


UNFAMILIAR: tuple[Callable[[People], Table], ...] = (
    accidents_german,
    company_survey,
    health_survey_mexican,
    panel_french,
    cohort_visits,
    staff_by_year,
    customers,
    census_excerpt,
    police_incidents,
    registry_italian,
)

# The keys of people and of groups of people: never published, and one of them is drafted as unit or household.
UNITS: dict[str, tuple[str, ...]] = {
    "accidents_german": ("UnfallID",),
    "company_survey": ("company",),
    "health_survey_mexican": ("folio_hogar",),
    "panel_french": ("id_menage", "id_individu"),
    "cohort_visits": ("subject",),
    "staff_by_year": ("empno",),
    "customers": ("custid", "memberid", "caseid"),
    "police_incidents": ("incident_no", "officer_id"),
    "registry_italian": ("codice_paziente", "id_famiglia"),
}

# The keys of households, in these and other tables, that a draft declares as household.
HOUSEHOLDS = {
    "household_survey": "hhid",
    "budget_italian": "NQUEST",
    "travel_survey": "HouseholdID",
    "budget_austrian": "Haushaltsnummer",
    "health_survey_mexican": "folio_hogar",
    "panel_french": "id_menage",
    "registry_italian": "id_famiglia",
    "panel_german": "hhnr",
    "labour_spanish": "NVIVI",
    "panel_dutch": "nohouse_encr",
}

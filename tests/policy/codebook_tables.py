"""Five tables with the column names of real codebooks, scored once the code was written and then learned from.

They resemble a heart study, the people of traffic accidents, and household panels in Germany, Spain and the
Netherlands.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from tests.policy.draft_tables import People, Table, either, naming, plain, quasi, secret, weight
from tests.policy.unfamiliar_tables import body_weight, calibrated, groups, moments


def heart_study(p: People) -> Table:
    who = p.rng.permutation(np.repeat(np.arange(200), 3))
    of = lambda values: [values[person] for person in who]  # noqa: E731
    return Table(
        {
            "RANDID": naming(of(p.keys())),
            "PERIOD": either("insensitive|quasi", p.pick("1 2 3"), "number|category|ordered"),
            "SEX": quasi(of(p.sex("2", "1")), "category"),
            "AGE": quasi(of(p.numbers(p.age)), "age"),
            "EDUC": quasi(of(p.pick("1 2 3 4", p.schooling)), "category|ordered"),
            "TOTCHOL": secret(p.whole(110, 450), "number"),
            "SYSBP": secret(p.whole(90, 230), "number"),
            "DIABP": secret(p.whole(50, 140), "number"),
            "CURSMOKE": secret(p.truth(0.4, "1", "0"), "truth"),
            "CIGPDAY": secret(p.whole(0, 60), "number"),
            "BMI": secret(p.decimal(16, 50), "number"),
            "DIABETES": secret(p.truth(0.05, "1", "0"), "truth"),
            "BPMEDS": secret(p.truth(0.1, "1", "0"), "truth"),
            "HEARTRTE": secret(p.whole(40, 140), "number"),
            "GLUCOSE": secret(p.gaps(p.whole(50, 300), ""), "number"),
            "PREVCHD": secret(p.truth(0.05, "1", "0"), "truth"),
            "DEATH": secret(p.truth(0.3, "1", "0"), "truth"),
            "HOSPMI": secret(p.truth(0.1, "1", "0"), "truth"),
            "STROKE": secret(p.truth(0.1, "1", "0"), "truth"),
        }
    )


def crash_people(p: People) -> Table:
    return Table(
        {
            "COLLISION_ID": naming(groups(p, (1, 2, 3), "{}", 4_400_000)),
            "PERSON_ID": naming(p.keys()),
            "VEHICLE_ID": naming(groups(p, (1, 1, 2), "{}", 2_000_000)),
            "CRASH_DATE": quasi(p.days("2021-01-01", "2022-12-30", "%m/%d/%Y"), "date"),
            "CRASH_TIME": either(
                "quasi|insensitive|identifier",
                [m[11:] for m in moments(p, "2020-01-01", "%Y-%m-%d %H:%M")],
                "text|category|number",
            ),
            "BOROUGH": quasi(p.pick("BRONX BROOKLYN MANHATTAN QUEENS", p.region), "category"),
            "ZIP_CODE": quasi(p.places("{}", 40, 10001, 11697), "postcode"),
            "PERSON_TYPE": either("insensitive|quasi", p.pick("Occupant Pedestrian Bicyclist"), "category"),
            "PERSON_INJURY": secret(p.pick("Unspecified Injured Killed"), "category"),
            "PERSON_AGE": quasi(p.gaps(p.numbers(p.age), "999", share=0.03), "age", "999"),
            "PERSON_SEX": quasi(p.gaps(p.sex(), "U", share=0.02), "category"),
            "EJECTION": either("sensitive|insensitive", p.pick(["Not Ejected", "Ejected", "Trapped"]), "category"),
            "EMOTIONAL_STATUS": secret(p.pick("Conscious Shock Unconscious"), "category"),
            "BODILY_INJURY": secret(p.pick("Head Neck Back Chest Leg"), "category"),
            "POSITION_IN_VEHICLE": plain(p.pick(["Driver", "Front passenger", "Rear"]), "category"),
            "SAFETY_EQUIPMENT": plain(p.pick(["Lap Belt", "Airbag", "Helmet"]), "category"),
            "COMPLAINT": secret(p.pick(["Pain", "Whiplash", "None Visible"]), "category"),
            "CONTRIBUTING_FACTOR": either(
                "sensitive|insensitive", p.pick(["Speed", "Distraction", "Alcohol"]), "category"
            ),
        }
    )


def panel_german(p: People) -> Table:
    return Table(
        {
            "persnr": naming(p.persons("{}", 0.5)),
            "hhnr": naming(groups(p, (2, 3, 4), "{}")),
            "welle": plain(p.pick("2018 2019 2020"), "year|category|number"),
            "geschlecht": quasi(p.sex("weiblich", "maennlich"), "category"),
            "geburtsjahr": quasi(p.numbers([d.year for d in p.born]), "year"),
            "bundesland": quasi(p.pick("Hessen Bayern Berlin Sachsen", p.region), "category"),
            "ortsgroesse": quasi(
                p.pick(["unter 5000", "5000 bis 49999", "50000 bis 499999", "500000 und mehr"]), "ordered"
            ),
            "familienstand": quasi(p.pick("ledig verheiratet geschieden", p.married), "category"),
            "anzahl_kinder": quasi(p.pick("0 1 2 3"), "number|category"),
            "migrationshintergrund": quasi(p.truth(0.2, "ja", "nein"), "truth"),
            "schulabschluss": quasi(p.pick("Hauptschule Realschule Abitur", p.schooling), "category|ordered"),
            "erwerbsstatus": quasi(p.pick("Vollzeit Teilzeit arbeitslos Rentner"), "category"),
            "isco08": quasi(p.pick("2211 2310 4110 5120 7212 9112 2511 3322"), "category|prefix"),
            "wirtschaftszweig": quasi(p.pick("Handel Bau Industrie"), "category"),
            "bruttolohn": secret(p.gaps(p.numbers(p.income), "-2", "-1"), "number", "-2", "-1"),
            "wohngeld": secret(p.truth(0.1, "ja", "nein"), "truth"),
            "lebenszufriedenheit": either("sensitive|insensitive", p.whole(0, 11), "ordered|number"),
            "gesundheit_subjektiv": secret(
                p.pick(["sehr gut", "gut", "zufriedenstellend", "schlecht"], p.age), "category|ordered"
            ),
            "parteipraeferenz": secret(p.pick("CDU SPD Gruene"), "category"),
            "arztbesuche": secret(p.whole(0, 30), "number"),
            "koerpergroesse": quasi(p.whole(150, 200), "number"),
            "koerpergewicht": quasi(body_weight(p), "number"),
            "hochrechnungsfaktor": weight(calibrated(p, 3000, 2)),
            "interviewtag": either("quasi|insensitive", p.whole(1, 32), "number"),
        },
        delimiter=";",
    )


def labour_spanish(p: People) -> Table:
    return Table(
        {
            "NVIVI": naming(groups(p, (2, 3, 4), "{:06d}")),
            "NPERS": either("identifier|insensitive|quasi", p.pick("1 2 3 4"), "number|category|key"),
            "CCAA": quasi(p.pick("01 09 13 10", p.region), "category"),
            "PROVINCIA": quasi(p.pick("28 08 41 46", p.region), "category"),
            "EDAD": quasi(p.numbers(p.age), "age"),
            "SEXO": quasi(p.sex("6", "1"), "category"),
            "ESTADO_CIVIL": quasi(p.pick("1 2 3 4", p.married), "category"),
            "NIVEL_FORMACION": quasi(p.pick("AN P1 S1 SG SU", p.schooling), "category"),
            "NACIONALIDAD": quasi(p.pick("1 2 3"), "category"),
            "PAIS_NACIMIENTO": quasi(p.pick("ES MA RO CO"), "category"),
            "SITUACION_LABORAL": quasi(p.pick("01 03 07 08"), "category"),
            "OCUPACION": quasi(p.pick("1 2 3 4 5 9", p.work), "category"),
            "ACTIVIDAD": quasi(p.pick("0 1 2 3 4 5 6"), "category|number"),
            "HORAS_TRABAJADAS": either("quasi|insensitive", p.gaps(p.whole(5, 60), "99"), "number", "99"),
            "SALARIO_NETO": secret(p.numbers(p.income), "number"),
            "DISCAPACIDAD": secret(p.truth(0.1, "1", "6"), "truth|category"),
            "BUSCA_EMPLEO": either("sensitive|quasi|insensitive", p.truth(0.2, "1", "6"), "truth|category"),
            "PRESTACION_DESEMPLEO": either("sensitive|quasi", p.truth(0.1, "1", "6"), "truth|category"),
            "FACTOR_ELEVACION": weight(calibrated(p, 900, 2)),
            "FECHA_ENTREVISTA": either("quasi|insensitive", moments(p, "2020-01-01", "%d/%m/%Y"), "date"),
        },
        delimiter="\t",
        suffix=".tsv",
    )


def panel_dutch(p: People) -> Table:
    return Table(
        {
            "nomem_encr": naming(p.persons("8{:05d}", 0.5)),
            "nohouse_encr": naming(groups(p, (2, 3), "5{:05d}")),
            "geslacht": quasi(p.pick("man vrouw"), "category"),
            "geboortejaar": quasi(p.numbers([d.year for d in p.born]), "year"),
            "leeftijd": quasi(p.numbers(p.age), "age"),
            "burgerlijke_staat": quasi(p.pick("gehuwd gescheiden ongehuwd"), "category"),
            "aantal_kinderen": quasi(p.pick("0 1 2 3"), "number|category"),
            "woonvorm": quasi(p.pick("alleen samen kind"), "category"),
            "stedelijkheid": quasi(p.pick(["zeer sterk", "sterk", "matig", "weinig"]), "category|ordered"),
            "opleidingsniveau": quasi(p.pick("vmbo havo mbo hbo wo", p.schooling), "category"),
            "belangrijkste_bezigheid": quasi(p.pick("betaald school huishouden pensioen"), "category"),
            "herkomst": quasi(p.pick("nederlands westers niet-westers"), "category"),
            "netto_inkomen": secret(p.gaps(p.numbers(p.income), "-13", "-14"), "number", "-13", "-14"),
            "bruto_inkomen_categorie": secret(
                p.pick(
                    ["geen", "t/m 500 euro", "501 tot 1000 euro", "1001 tot 2000 euro", "meer dan 2000 euro"], p.income
                ),
                "ordered|category",
            ),
            "eigen_woning": either("quasi|sensitive|insensitive", p.truth(0.6, "ja", "nee"), "truth"),
            "gezondheid": secret(p.pick(["slecht", "matig", "goed", "zeer goed"], p.age), "ordered"),
            "rookt": secret(p.truth(0.2, "ja", "nee"), "truth"),
            "kerkbezoek": secret(p.pick("nooit zelden soms vaak"), "ordered"),
            "stemgedrag": secret(p.pick("VVD PvdA D66"), "category"),
            "gewicht": quasi(p.gaps(body_weight(p), "999", share=0.02), "number", "999"),
            "lengte": quasi(p.whole(150, 200), "number"),
        },
        delimiter=";",
    )


CODEBOOKS: tuple[Callable[[People], Table], ...] = (
    heart_study,
    crash_people,
    panel_german,
    labour_spanish,
    panel_dutch,
)

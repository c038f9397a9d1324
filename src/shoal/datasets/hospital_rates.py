"""What the made-up hospital's stays depend on: its diagnoses, regions, ages, occupations and insurances."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Exposure = Literal["none", "manual", "contact", "seated"]
EXPOSURES: tuple[Exposure, ...] = ("none", "manual", "contact", "seated")

# How frequent a thing is at an age: (ages, heights), straight lines between.
AGE_PROFILES: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "any": ((0, 105), (1, 1)),
    "newborn": ((0, 1), (1, 0)),
    "infant": ((0, 2, 6, 12), (1, 1, 0.25, 0)),
    "child": ((0, 3, 8, 15, 25, 105), (0.6, 1, 1, 0.6, 0.12, 0.02)),
    "young": ((0, 10, 15, 22, 35, 60, 105), (0.05, 0.3, 0.8, 1, 0.6, 0.25, 0.1)),
    "fertile": ((14.5, 17, 27, 32, 37, 42, 47, 49.5), (0, 0.12, 0.9, 1, 0.7, 0.2, 0.01, 0)),
    "adult": ((0, 14, 20, 30, 60, 80, 105), (0, 0.1, 0.7, 1, 1, 0.6, 0.3)),
    "middle": ((0, 20, 35, 50, 65, 80, 105), (0.01, 0.15, 0.6, 1, 0.9, 0.5, 0.25)),
    "older": ((0, 30, 45, 60, 75, 90, 105), (0, 0.05, 0.25, 0.8, 1, 0.7, 0.5)),
    "old": ((0, 45, 60, 70, 80, 90, 105), (0, 0.03, 0.2, 0.5, 1, 1.3, 1.3)),
    "both ends": ((0, 4, 10, 40, 65, 80, 105), (1, 0.7, 0.15, 0.15, 0.6, 1.3, 2)),
}


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """How frequent one diagnosis is, for whom and when, and what a stay with it costs."""

    name: str
    weight: float
    ages: str  # a key of AGE_PROFILES
    cost: int  # the median of a stay
    women: float = 1.0
    men: float = 1.0
    winter: float = 1.0
    summer: float = 1.0
    weekend: float = 1.0  # below one where admission is planned
    exposed: Exposure = "none"  # the kind of work that brings it about more often
    excess: float = 1.0  # how much more often


D = Diagnosis
DIAGNOSES: dict[str, dict[str, tuple[Diagnosis, ...]]] = {
    "Circulatory": {
        "Heart": (
            D("Heart failure", 42, "old", 4100, winter=1.2),
            D("Irregular heartbeat", 30, "older", 2900),
            D("Heart attack", 20, "older", 6800, men=1.9, winter=1.25),
            D("Angina", 18, "older", 2600, men=1.5),
            D("Heart valve disease", 7, "old", 14500, weekend=0.3),
        ),
        "Brain vessels": (
            D("Stroke", 27, "old", 7400, men=1.15),
            D("Passing stroke", 11, "old", 2500),
            D("Brain haemorrhage", 3, "older", 12800),
        ),
        "Blood vessels": (
            D("High blood pressure", 22, "older", 1700, women=1.3),
            D("Narrowed leg arteries", 11, "older", 5600, men=1.7, weekend=0.4),
            D("Varicose veins", 5, "middle", 2300, women=1.8, weekend=0.1, exposed="contact", excess=1.6),
            D("Deep vein thrombosis", 5, "older", 2100),
        ),
    },
    "Respiratory": {
        "Lung infection": (
            D("Pneumonia", 30, "both ends", 3900, winter=2.4, summer=0.5),
            D("Influenza", 9, "both ends", 2600, winter=6.0, summer=0.05, exposed="contact", excess=1.5),
            D("Bronchitis in infants", 55, "infant", 2200, winter=3.2, summer=0.3),
        ),
        "Chronic lung disease": (
            D("Chronic bronchitis", 21, "older", 3300, men=1.3, winter=1.6, exposed="manual", excess=1.5),
            D("Asthma", 8, "child", 1900, exposed="manual", excess=1.4),
            D("Dust lung", 0.6, "older", 5200, men=4.0, exposed="manual", excess=6.0),
        ),
        "Throat and nose": (
            D("Inflamed tonsils", 17, "child", 1500, weekend=0.5),
            D("Inflamed sinuses", 7, "adult", 2000, winter=1.3, weekend=0.2),
        ),
    },
    "Digestive": {
        "Stomach and gut": (
            D("Gallstones", 20, "middle", 3400, women=1.6),
            D("Inflamed appendix", 13, "young", 3100),
            D("Gut infection", 21, "both ends", 1600, winter=1.3, exposed="contact", excess=1.5),
            D("Stomach ulcer", 7, "older", 3000, exposed="seated", excess=1.2),
            D("Diverticulitis", 11, "older", 3200),
            D("Bowel obstruction", 9, "older", 4800),
        ),
        "Hernia": (
            D("Groin hernia", 14, "older", 2700, men=7.0, weekend=0.1, exposed="manual", excess=1.7),
            D("Abdominal wall hernia", 6, "middle", 3500, weekend=0.15),
        ),
        "Liver and pancreas": (
            D("Liver cirrhosis", 5, "middle", 5300, men=1.9),
            D("Inflamed pancreas", 6, "middle", 4600, men=1.4),
        ),
    },
    "Cancer": {
        "Female cancer": (
            D("Breast cancer", 15, "older", 6100, men=0.01, weekend=0.2),
            D("Ovarian cancer", 2.5, "older", 9200, men=0, weekend=0.2),
            D("Cervical cancer", 1.5, "middle", 7000, men=0, weekend=0.2),
        ),
        "Male cancer": (
            D("Prostate cancer", 13, "older", 6500, women=0, weekend=0.15),
            D("Testicular cancer", 1.2, "young", 5800, women=0, weekend=0.2),
        ),
        "Digestive cancer": (
            D("Bowel cancer", 14, "older", 11300, men=1.25, weekend=0.3),
            D("Stomach cancer", 3, "older", 11900, men=1.6, weekend=0.3),
            D("Pancreatic cancer", 4, "older", 12600, weekend=0.4),
        ),
        "Other cancer": (
            D("Lung cancer", 15, "older", 8100, men=1.7, weekend=0.4, exposed="manual", excess=1.4),
            D("Skin cancer", 7, "old", 2800, weekend=0.1, exposed="manual", excess=1.3),
            D("Bladder cancer", 8, "older", 3700, men=2.8, weekend=0.2),
            D("Leukaemia", 3.5, "both ends", 15400),
        ),
    },
    "Injury": {
        "Head and spine injury": (
            D("Concussion", 24, "both ends", 1100, men=1.2, summer=1.2, weekend=1.3),
            D("Spinal fracture", 8, "old", 5200, women=1.4),
        ),
        "Broken limb": (
            D("Broken hip", 22, "old", 8900, women=1.8, winter=1.15),
            D("Broken forearm", 14, "child", 2900, summer=1.3, weekend=1.2),
            D("Broken lower leg", 10, "young", 4700, winter=1.2, weekend=1.2, exposed="manual", excess=1.5),
            D("Broken shoulder", 8, "old", 5000, women=1.9),
        ),
        "Other injury": (
            D("Burn", 2.5, "young", 6300, men=1.6, exposed="manual", excess=2.0),
            D("Poisoning", 6, "young", 1500, weekend=1.4),
            D("Hand injury", 7, "young", 2600, men=2.2, exposed="manual", excess=2.6),
        ),
    },
    "Musculoskeletal": {
        "Joints": (
            D("Worn hip", 18, "older", 8200, women=1.3, weekend=0.05),
            D("Worn knee", 20, "older", 8400, women=1.4, weekend=0.05, exposed="manual", excess=1.3),
            D("Torn meniscus", 8, "middle", 2400, weekend=0.05),
            D("Rheumatoid arthritis", 4, "middle", 3600, women=2.3, weekend=0.3),
        ),
        "Back": (
            D("Slipped disc", 13, "middle", 4300, weekend=0.6, exposed="manual", excess=1.8),
            D("Back pain", 18, "middle", 2000, exposed="seated", excess=1.6),
            D("Narrowed spinal canal", 8, "old", 6700, weekend=0.2),
        ),
    },
    "Nervous system and senses": {
        "Nerves": (
            D("Epilepsy", 13, "both ends", 2500),
            D("Multiple sclerosis", 3.5, "adult", 3200, women=2.4, weekend=0.3),
            D("Parkinson disease", 7, "old", 5400, men=1.4),
            D("Migraine", 4, "adult", 1400, women=2.6, exposed="seated", excess=1.3),
            D("Sleep apnoea", 7, "middle", 900, men=2.4, weekend=0.1, exposed="seated", excess=1.3),
        ),
        "Eye and ear": (
            D("Cataract", 12, "old", 1600, weekend=0.03),
            D("Glaucoma", 4, "old", 2100, weekend=0.1),
            D("Middle ear infection", 8, "infant", 1300, winter=1.7, summer=0.6),
        ),
    },
    "Mental health": {
        "Addiction": (
            D("Alcohol dependence", 23, "middle", 3000, men=2.8, exposed="manual", excess=1.2),
            D("Opioid dependence", 3, "young", 3800, men=2.5),
        ),
        "Mood": (
            D("Depression", 21, "adult", 9100, women=1.5, winter=1.15, exposed="contact", excess=1.5),
            D("Bipolar disorder", 3.5, "adult", 10200),
        ),
        "Psychosis and dementia": (
            D("Schizophrenia", 7, "adult", 12100, men=1.3),
            D("Dementia", 9, "old", 6000),
            D("Delirium", 6, "old", 4200),
        ),
        "Stress and eating": (
            D("Anxiety disorder", 7, "young", 5900, women=1.7, exposed="contact", excess=1.3),
            D("Anorexia", 2, "young", 14000, women=8.0),
        ),
    },
    "Urinary and genital": {
        "Kidney and bladder": (
            D("Kidney stones", 13, "middle", 2200, men=1.9, summer=1.3),
            D("Urinary infection", 18, "both ends", 2400, women=1.8),
            D("Kidney failure", 13, "old", 5700),
        ),
        "Male organs": (
            D("Enlarged prostate", 11, "older", 3600, women=0, weekend=0.1),
            D("Undescended testicle", 6, "infant", 1900, women=0, weekend=0.05),
        ),
        "Female organs": (
            D("Fibroids of the womb", 8, "middle", 3900, men=0, weekend=0.1),
            D("Endometriosis", 4, "fertile", 3300, men=0, weekend=0.1),
        ),
    },
    "Birth and newborn": {
        "Childbirth": (
            D("Natural birth", 230, "fertile", 2100, men=0, summer=1.07),
            D("Caesarean birth", 105, "fertile", 4300, men=0, weekend=0.6),
            D("Preterm labour", 24, "fertile", 2700, men=0),
        ),
        "Pregnancy": (
            D("Miscarriage", 22, "fertile", 1500, men=0),
            D("Pregnancy diabetes", 10, "fertile", 1300, men=0, weekend=0.5),
        ),
        "Newborn": (
            D("Healthy newborn", 1500, "newborn", 900),
            D("Premature newborn", 210, "newborn", 18500, men=1.1),
            D("Newborn jaundice", 240, "newborn", 1200),
        ),
    },
    "Infection and skin": {
        "General infection": (
            D("Blood poisoning", 14, "old", 9800, men=1.2),
            D("Tuberculosis", 1, "adult", 7700, men=1.6),
            D("Hepatitis", 1.2, "adult", 3400, exposed="contact", excess=2.2),
            D("Human immunodeficiency virus", 0.8, "adult", 6400, men=3.5),
        ),
        "Skin": (
            D("Skin infection", 13, "adult", 2700, summer=1.4, exposed="manual", excess=1.4),
            D("Psoriasis", 3, "adult", 3100, weekend=0.3),
            D("Eczema", 3, "child", 2300, weekend=0.4),
        ),
    },
    "Metabolism and blood": {
        "Diabetes": (
            D("Diabetes of the young", 5, "child", 3100),
            D("Diabetes of age", 17, "older", 3700, men=1.3, exposed="seated", excess=1.3),
        ),
        "Other metabolism": (
            D("Dehydration", 11, "old", 2000, summer=1.9),
            D("Enlarged thyroid", 5, "middle", 3000, women=3.0, weekend=0.05),
            D("Severe overweight", 3, "adult", 7600, women=1.9, weekend=0.1, exposed="seated", excess=1.4),
        ),
        "Blood": (
            D("Anaemia", 9, "old", 2300, women=1.3),
            D("Haemophilia", 0.4, "child", 9900, women=0.02),
        ),
    },
}
ALL_DIAGNOSES: tuple[Diagnosis, ...] = tuple(
    diagnosis for groups in DIAGNOSES.values() for members in groups.values() for diagnosis in members
)


Character = Literal["city", "industry", "country", "capital"]
CHARACTERS: tuple[Character, ...] = ("city", "industry", "country", "capital")

# The first two digits of the postcodes of a region, and what kind of region it is; largest first.
REGIONS: dict[str, Character] = {
    "10": "capital",
    "20": "city",
    "80": "city",
    "50": "city",
    "44": "industry",
    "60": "city",
    "45": "industry",
    "70": "industry",
    "30": "city",
    "01": "city",
    "04": "industry",
    "66": "industry",
    "97": "country",
    "24": "country",
    "17": "country",
    "94": "country",
    "39": "country",
    "88": "country",
    "26": "country",
    "06": "industry",
}

# Admissions by age: (ages, heights), straight lines between. Newborns have a height of their own.
ADMISSIONS = (
    (0, 1, 3, 10, 18, 30, 45, 60, 70, 80, 86, 95, 105),
    (30, 6, 3, 2, 4, 5, 6, 11, 15, 18, 14, 3, 0.05),
)
ADMISSIONS_FOR_BIRTH = ((15, 20, 31, 40, 47), (0, 2, 12, 4, 0))
# The country is older than the city: the weight of an age of 100 against that of a newborn.
LEANING_TO_AGE: dict[Character, float] = {"city": 0.8, "industry": 1.1, "country": 2.0, "capital": 0.5}

INSURANCES = ("statutory", "family member", "private", "civil servant scheme", "self-pay")
INSURANCE_PRICES = (1.0, 1.0, 1.3, 1.15, 1.1)  # what they pay for the same stay
INSURANCE_CHANCES: dict[str, tuple[float, ...]] = {
    "dependant": (0.02, 0.80, 0.11, 0.06, 0.01),
    "student": (0.46, 0.38, 0.11, 0.03, 0.02),
    "employee": (0.90, 0.01, 0.08, 0.00, 0.01),
    "well paid": (0.45, 0.01, 0.52, 0.01, 0.01),
    "official": (0.10, 0.00, 0.09, 0.80, 0.01),
    "independent": (0.66, 0.05, 0.25, 0.00, 0.04),
    "retired": (0.84, 0.02, 0.08, 0.055, 0.005),
    "without work": (0.62, 0.32, 0.02, 0.01, 0.03),
}
# Private insurance is taken out by the established: its weight below 30, from 30 to 49, and from 50 on.
PRIVATE_BY_AGE = (0.6, 1.0, 1.35)

Knots = tuple[tuple[float, ...], tuple[float, ...]]
WORKING: Knots = ((15, 17, 20, 26, 56, 61, 64, 67, 72, 80), (0, 0.15, 0.6, 1, 1, 0.85, 0.5, 0.12, 0.03, 0))


@dataclass(frozen=True, slots=True)
class Occupation:
    """How frequent an occupation is, for whom and where, and what it brings with it."""

    name: str
    weight: float
    insurance: str = "employee"  # a key of INSURANCE_CHANCES
    exposure: Exposure = "none"
    women: float = 1.0
    men: float = 1.0
    start: int = 0  # the lowest age
    ages: Knots = WORKING
    where: Character | None = None  # the kind of region that has more of it
    excess: float = 1.0  # how much more


O = Occupation
OCCUPATIONS: dict[str, tuple[Occupation, ...]] = {
    "In education": (
        O("preschool child", 100, "dependant", ages=((0, 5, 6), (1, 1, 0))),
        O("pupil", 100, "dependant", ages=((5, 6, 15, 16, 19, 20), (0, 1, 1, 0.6, 0.15, 0))),
        O("apprentice", 30, exposure="manual", men=1.4, ages=((15, 16, 18, 23, 27), (0, 0.6, 1, 0.2, 0))),
        O(
            "student",
            60,
            "student",
            where="city",
            excess=1.6,
            ages=((17, 18, 21, 26, 34), (0, 0.4, 1, 0.4, 0)),
        ),
    ),
    "Care and teaching": (
        O("nurse", 7, exposure="contact", women=5, start=19),
        O("physician", 1.5, "well paid", "contact", start=25, where="city", excess=1.4),
        O("teacher", 4, "official", "contact", women=2.4, start=24),
        O("social worker", 3, exposure="contact", women=3, start=21),
    ),
    "Office": (
        O("clerk", 14, exposure="seated", women=2.2),
        O("accountant", 3, exposure="seated", women=1.2, start=21),
        O("manager", 4, "well paid", "seated", men=2, start=27, where="capital", excess=1.6),
        O("software developer", 4, "well paid", "seated", men=4, start=21, where="capital", excess=2.2),
        O("administrator", 5, "official", "seated", women=1.3, start=20, where="capital", excess=2.5),
    ),
    "Service": (
        O("shop assistant", 9, women=2.4, exposure="contact"),
        O("cook", 3, exposure="manual"),
        O("cleaner", 5, exposure="manual", women=4),
        O("hairdresser", 1.5, "independent", "contact", women=7),
        O("driver", 5, exposure="seated", men=9, start=20),
    ),
    "Craft and industry": (
        O("electrician", 3, exposure="manual", men=14),
        O("mechanic", 4, exposure="manual", men=12),
        O("builder", 4, exposure="manual", men=20),
        O("machine operator", 6, exposure="manual", men=3.5, where="industry", excess=3),
        O("warehouse worker", 5, exposure="manual", men=2.6, where="industry", excess=1.8),
        O("engineer", 4, "well paid", "seated", men=4, start=23, where="industry", excess=1.6),
    ),
    "Land": (
        O("farmer", 1.4, "independent", "manual", men=1.8, where="country", excess=8),
        O("gardener", 1.2, exposure="manual", men=1.6, where="country", excess=2),
    ),
    "Public safety": (
        O("police officer", 1.4, "official", "contact", men=2.6, start=19),
        O("soldier", 0.9, "official", "manual", men=7, where="country", excess=1.5),
    ),
    "Not employed": (
        O("homemaker", 7, "without work", women=6, ages=((18, 24, 35, 60, 72, 90), (0, 0.6, 1, 1, 0.5, 0.1))),
        O(
            "unemployed",
            9,
            "without work",
            where="industry",
            excess=1.5,
            ages=((17, 19, 60, 65, 66), (0, 1, 1, 0.6, 0)),
        ),
        O("retired", 900, "retired", ages=((52, 58, 62, 66, 70), (0, 0.004, 0.03, 0.35, 1))),
    ),
}
ALL_OCCUPATIONS: tuple[Occupation, ...] = tuple(member for members in OCCUPATIONS.values() for member in members)

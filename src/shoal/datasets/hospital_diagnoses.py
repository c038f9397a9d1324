"""The made-up hospital's diagnoses: a tree of three levels, and what each depends on."""

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
ALL: tuple[Diagnosis, ...] = tuple(
    diagnosis for groups in DIAGNOSES.values() for members in groups.values() for diagnosis in members
)

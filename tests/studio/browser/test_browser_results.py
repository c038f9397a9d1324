"""Results: what a steward decides by, with the mouse and with the keyboard."""

from __future__ import annotations


def test_columns_pairs_and_risks_are_looked_at_by_mouse_and_keyboard(person, visits):
    page, expect = person.page, person.expect
    person.opens(visits)
    person.runs()
    verdicts = page.get_by_role("table", name="Columns that changed")
    expect(verdicts).to_contain_text("generalized")
    expect(page.locator("#compared")).to_contain_text("Not published: person")
    verdicts.get_by_role("button", name="age", exact=True).click()
    person.is_told("Column shown")
    chosen = page.get_by_label("Column", exact=True)
    expect(chosen).to_have_value("age")
    figure = page.locator("#column figure")
    expect(figure.get_by_role("img", name="age, before and after")).to_be_visible()
    expect(figure.locator("polyline")).to_have_count(1)  # after, over the bars of before
    assert figure.locator("rect.plot-before").count() > 5
    statistics = page.get_by_role("table", name="Statistics of age")
    expect(statistics.get_by_role("row", name="mean")).to_contain_text("about")
    chosen.focus()
    page.keyboard.press("i")  # no other begins so; of a word, a letter that comes late would begin anew
    person.is_told("Column shown")
    expect(page.get_by_role("table", name="Statistics of illness")).to_contain_text("most frequent")
    expect(chosen).to_be_focused()
    page.get_by_label("Rows", exact=True).select_option("sex")
    expect(page.locator("#cross caption")).to_contain_text("sex by")
    page.get_by_label("Columns", exact=True).focus()
    page.keyboard.press("i")
    expect(page.locator("#cross caption")).to_have_text("sex by illness")
    expect(page.locator("#cross")).to_contain_text("of this table is kept")
    expect(page.locator("#cross tbody tr")).to_have_count(3)  # two sexes, and suppressed ones
    risky = page.get_by_role("table", name="The smallest classes")
    first = risky.locator("tbody tr").first.text_content()
    page.get_by_role("button", name="Larger classes").focus()
    page.keyboard.press("Enter")
    person.is_told("Classes shown")
    page.get_by_role("button", name="Smaller classes").click()
    expect(risky.locator("tbody tr").first).to_have_text(first)

"""An exercise is answered on the page: not yet, wrong, right."""

import re


def test_an_exercise_is_answered(lab, browser):
    with lab.open(browser, "06_play.ipynb") as notebook:
        notebook.run_all()
        told = notebook.run("pipeline-ex-bubble-check")
        assert told.startswith("Not answered yet: ")

        notebook.type("pipeline-ex-bubble-answer", 'answer_bubble = {"4 and 4": 1}')
        notebook.run("pipeline-ex-bubble-answer")
        malformed = notebook.run("pipeline-ex-bubble-check")
        assert malformed.startswith("Not yet. The answer should be ")

        form = 'answer_bubble = {"4 and 4": %s, "5 and 4": 14, "5 and 3": None}'
        notebook.type("pipeline-ex-bubble-answer", form % 1)
        notebook.run("pipeline-ex-bubble-answer")
        wrong = notebook.run("pipeline-ex-bubble-check")
        assert re.match(r"Not yet\. 4 and 4: .", wrong)

        notebook.type("pipeline-ex-bubble-answer", form % 6)
        notebook.run("pipeline-ex-bubble-answer")
        assert notebook.run("pipeline-ex-bubble-check").startswith("Right. ")


def test_the_worked_answer_is_folded_and_can_be_opened(lab, browser):
    with lab.open(browser, "06_play.ipynb") as notebook:
        cell = notebook.cell("pipeline-ex-bubble-worked")
        cell.scroll_into_view_if_needed()
        assert not cell.locator(".cm-content").is_visible()
        cell.locator(".jp-Placeholder-content").first.click()
        assert "def fewest" in cell.locator(".cm-content").inner_text()

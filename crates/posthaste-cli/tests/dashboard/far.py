token = sys.argv[2]
ROWS = "[...document.querySelectorAll('tbody tr')]"

with Browser(sys.argv[1]) as browser:
    tab = browser.tab()
    tab.forgiven = ["/healthz"]
    tab.open("/")
    tab.type("#token", token)
    tab.press("Enter")
    tab.sees("Overview")

    # What matches is further away than one page looks: it goes on by itself, and says how far it is.
    tab.press("g"), tab.press("e")
    tab.until(f"{ROWS}.length === 50", "the newest")
    tab.run("""{
        window.told = [];
        new MutationObserver(() => {
            const looking = document.querySelector(".looking");
            if (looking && !looking.hidden) window.told.push(looking.textContent);
        }).observe(document.body, { childList: true, subtree: true, attributes: true, characterData: true });
    }""")
    tab.type("input[type=search]", "needle")
    tab.until(f"{ROWS}.length === 1 && !!{ROWS}[0].querySelector('td.topic a')", "the needle")
    assert any("Still looking" in text for text in tab.run("window.told")), "it did not say that it goes on"
    assert tab.run("document.querySelector('.looking').hidden")

    # What is nowhere is looked for to the end, and then said to be nowhere.
    tab.type("input[type=search]", "nowhere")
    tab.sees("Nothing matches")
    tab.until("document.querySelector('.looking').hidden && !document.querySelector('p.pages').textContent.includes('Older')", "the end")

    # A search and a topic at once are both about the topic: neither is dropped silently.
    tab.forgiven.append("/events?")
    tab.run(f"location.hash = location.hash.split('?')[0] + '?q=needle&topic=shop.*'")
    tab.sees("give one of them")
    tab.run(f"location.hash = location.hash.split('?')[0] + '?q=needle'")
    tab.until(f"{ROWS}.length === 1", "the needle again")

    # A delivered event is sent again as another one, and that is said before it is done.
    tab.click("td.topic a", "shop.needle.lost.v1")
    tab.sees("Delivered")
    tab.click("button.main", "Redeliver…")
    tab.sees("consumers handle them again")
    tab.type("dialog input[name=why]", "they lost it")
    # The operator confirms once more, and it is begun once.
    tab.lose_answer("/redeliver")
    tab.click("dialog button.main", "Send again")
    tab.until("document.querySelector('dialog .failure[role=alert]').textContent.includes('cannot be reached')", "that no answer came")
    tab.click("dialog button.main", "Send again")
    tab.click(".toast a", "a new event")
    tab.sees("posthaste-redelivery-of")
    tab.run("history.back()")
    tab.sees("What operators did")
    assert tab.run("document.querySelectorAll('.acts li').length") == 1, "it was sent again twice"
    tab.harmless()

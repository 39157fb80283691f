token = sys.argv[2]
ROWS = "[...document.querySelectorAll('tbody tr')]"


def ids(tab):
    return set(tab.run(f"{ROWS}.map((it) => it.querySelector('td.topic a').title)"))


def pages(tab, onward, sizes):
    """Leafs onward: each page has so many, and all of them are others."""
    seen = set()
    for place, size in enumerate(sizes):
        tab.until(f"{ROWS}.length === {size} && !{json.dumps(sorted(seen))}.includes({ROWS}[0].querySelector('td.topic a').title)", f"page {place + 1}")
        page = ids(tab)
        assert len(page) == size and not (page & seen), f"page {place + 1} tells again what was told"
        seen |= page
        if place + 1 < len(sizes):
            tab.click("p.pages a", onward)
    assert onward not in tab.run("document.querySelector('p.pages').textContent"), "there is nothing more"
    return seen


with Browser(sys.argv[1]) as browser:
    tab = browser.tab()
    tab.forgiven = ["/healthz"]
    tab.open("/")
    tab.type("#token", token)
    tab.press("Enter")
    tab.sees("Overview")

    # Pages of events, from both ends: the same events. A link leads to a page, and back to the first.
    tab.press("g"), tab.press("e")
    seen = pages(tab, "Older →", [50, 50, 21])
    last = ids(tab)
    tab.reload()
    tab.until(f"{ROWS}.length === 21", "the same page")
    assert ids(tab) == last
    tab.click("p.pages a", "← Newest")
    tab.until(f"{ROWS}.length === 50")
    newest = sorted(ids(tab))
    tab.run("{ const order = document.querySelector('select[name=order]'); order.value = 'oldest'; order.dispatchEvent(new Event('change', { bubbles: true })) }")
    # The page before may still be there.
    tab.until(f"!{json.dumps(newest)}.includes({ROWS}[0].querySelector('td.topic a').title)", "the oldest")
    assert pages(tab, "Newer →", [50, 50, 21]) == seen

    # What is no text is shown in hex, byte by byte.
    tab.type("input[type=search]", "photo")
    tab.until(f"{ROWS}.length === 1", "the photo")
    tab.click("td.topic a", "shop.photo.taken.v1")
    tab.until("document.querySelector('pre.hex')?.textContent.startsWith('00000000  89 50 4e 47 0d 0a 1a 0a 00 ff fe 80 c3 28 3c 62')", "bytes")
    tab.until("document.querySelector('pre.hex').textContent.includes('·PNG·······')", "signs beside them")
    tab.until("document.querySelector('pre.hex').textContent.includes('00000010  3e')", "a second row")
    tab.sees("image/png · 17")

    # A redelivery that is begun and given up: the rest stays dead.
    tab.press("g"), tab.press("d")
    tab.until("document.querySelectorAll('.group').length === 2", "both kinds of errors")
    tab.click("input[aria-label='Select all groups']")
    tab.sees("121 events in 2 groups selected")
    tab.click("input[aria-label='Select all groups']")
    tab.sees("121 dead events in 2 groups")
    tab.click(".group input[type=checkbox]")
    tab.sees("120 events in 1 group selected")
    tab.click("button", "Preview redelivery…")
    tab.type("dialog input[name=why]", "to see what happens")
    tab.type("dialog input[name=rate]", "1")
    # The operator confirms once more, and it is begun once.
    tab.lose_answer("/redeliver")
    tab.click("dialog button.main", "Redeliver")
    tab.until("document.querySelector('dialog .failure[role=alert]').textContent.includes('cannot be reached')", "that no answer came")
    tab.click("dialog button.main", "Redeliver")
    tab.until("document.querySelector('.job')?.dataset.state === 'running'")
    tab.sees("errors of kind")
    assert tab.run("document.querySelectorAll('.job').length") == 1, "it was begun twice"
    tab.click(".job button.danger", "Cancel")
    tab.sees("What is redelivered already stays so")
    tab.type("dialog input[name=why]", "it is still refused")
    tab.click("dialog button.danger", "Cancel")
    tab.until("document.querySelector('.job')?.dataset.state === 'cancelled'")
    tab.until("!document.querySelector('.job button')", "nothing more to do about it")

    # The audit log has pages, too.
    tab.press("g"), tab.press("a")
    tab.until("document.querySelector('h1')?.textContent === 'Audit'")
    tab.until(f"{ROWS}.length === 100", "the latest hundred")
    tab.sees("cancel job")
    tab.click("p.pages a", "Earlier →")
    tab.until(f"{ROWS}.length > 0 && {ROWS}.length < 100", "the rest of it")
    tab.until("!document.body.innerText.includes('cancel job')", "earlier ones only")
    tab.sees("the first of all")
    tab.click("p.pages a", "← Latest")
    tab.until(f"{ROWS}.length === 100")
    tab.harmless()

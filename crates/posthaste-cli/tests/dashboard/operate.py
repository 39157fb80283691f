token, table, mend, pictures = sys.argv[2:6]
PAGES = ["overview", "events", "dead", "destinations", "relays", "database", "audit"]

with Browser(sys.argv[1]) as browser:
    tab = browser.tab()
    # Health is told with 503 while something is ill: that is no fault of the page.
    tab.forgiven = ["/healthz"]
    tab.open("/")
    tab.type("#token", token)
    tab.press("Enter")
    tab.sees("Overview")
    tab.sees("operator")

    # What is wrong is told in full, also on a phone.
    tab.size(390, 844)
    tab.click("details.ill summary")
    inside = """(() => { const box = document.querySelector("details.ill ul").getBoundingClientRect();
        return box.width > 200 && box.left >= 0 && box.right <= innerWidth; })()"""
    tab.until(inside, "all of it on the screen")
    tab.sees("see what the errors have in common")
    tab.size(1440, 900)
    tab.until(inside, "all of it on the screen")

    # Every page, by the menu, each with its own title; and back.
    for name, title in zip(PAGES, ["Overview", "Events", "Dead letters", "Destinations", "Relays", "Database", "Audit"]):
        tab.click(f"#nav a[data-page={name}]")
        tab.until(f"document.querySelector('h1')?.textContent === {json.dumps(title)}")
        tab.until(f"location.hash.includes('/{name}')")
        tab.until("!document.querySelector('#page [role=alert] .notice')")
    # The first page says that something is wrong, why, and leads there.
    tab.click("#nav a[data-page=overview]")
    tab.until("document.querySelector('.hint')?.textContent.startsWith('33 events are dead. Because: ')", "what is wrong")
    tab.until("document.querySelector('.hint').textContent.includes('400')", "why")
    tab.click(".hint")
    tab.until("document.querySelector('h1')?.textContent === 'Dead letters'")
    tab.run("history.back()")
    tab.until("document.querySelector('h1')?.textContent === 'Overview'")
    tab.click(".numbers a", "0")
    tab.until("location.hash.includes('status=pending%2Cprocessing')", "what waits")
    tab.click("#nav a[data-page=database]")
    tab.until("document.querySelector('h1')?.textContent === 'Database'")
    tab.sees("PostgreSQL")

    # The keyboard: go, search, and help.
    tab.press("g"), tab.press("o")
    tab.until("document.querySelector('h1')?.textContent === 'Overview'")
    tab.press("?")
    tab.until("!!document.querySelector('dialog[open] kbd')")
    tab.press("Escape")
    tab.until("!document.querySelector('dialog')")
    tab.press("/")
    tab.until("document.activeElement?.type === 'search'")

    # Search by a part of a topic, then by an id; filters; an event with its attempts and its payload.
    tab.type("input[type=search]", "paid")
    tab.until("document.querySelectorAll('tbody tr').length === 3", "three that are paid")
    # By the keyboard alone: from the search to the first of them, and in.
    for _ in range(40):
        tab.press("Tab")
        if tab.run("document.activeElement.matches('td.topic a')"):
            break
    tab.press("Enter")
    tab.sees("Attempt 1: rejected")
    tab.run("history.back()")
    tab.until("document.querySelectorAll('tbody tr').length === 3", "the same three")
    found = tab.run("document.querySelector('td.topic a').title")
    tab.type("input[type=search]", found)
    tab.until("document.querySelectorAll('tbody tr').length === 1", "one with this id")
    tab.click("button", "Clear")
    tab.until("document.querySelectorAll('tbody tr').length === 33", "all")
    tab.click(".chip", "delivered")
    tab.sees("Nothing matches")
    tab.click(".chip", "delivered")
    tab.click(".chip", "dead")
    tab.until("location.hash.includes('status=dead') && document.querySelectorAll('tbody tr').length === 33")
    tab.click("td.topic a", "shop.order.paid.v1")
    tab.sees("Attempt 1: rejected")
    tab.sees("400")
    tab.until("document.querySelector('.json .number')?.textContent === '4712'")
    deep = tab.run("location.href.slice(location.origin.length)")

    # Mended, one by hand: why has to be said.
    urllib.request.urlopen(urllib.request.Request(mend, method="POST"))
    tab.click("button", "Redeliver…")
    tab.click("dialog button.main", "Redeliver")
    assert tab.run("!!document.querySelector('dialog[open] :invalid')"), "without a reason nothing is done"
    tab.type("dialog input[name=why]", "the endpoint is mended")
    tab.click("dialog button.main", "Redeliver")
    tab.sees("Delivered")
    tab.sees("What operators did")
    # In the order in which it came.
    steps = tab.run("[...document.querySelectorAll('.timeline strong')].map((it) => it.textContent)")
    assert steps[:3] == ["Enqueued", "Attempt 1: rejected", "Redelivered by operator"] and steps[-1] == "Delivered", steps

    # One is given up. What somebody gave up needs nobody any more, and is not brought back unawares.
    tab.press("g"), tab.press("d")
    tab.until("document.querySelector('.group .count')?.textContent === '32'", "a group of 32")
    tab.until("document.querySelector('.badge').textContent === '32'", "the live count of the dead")
    tab.click(".group a", "an example")
    tab.click("button", "Discard…")
    tab.type("dialog input[name=why]", "a test card")
    tab.click("dialog button.danger", "Discard")
    tab.sees("a test card")
    tab.press("g"), tab.press("d")
    tab.sees("31 dead events in 1 group, 1 discarded")
    tab.click("input[aria-label='Select all groups']")
    tab.sees("31 events in 1 group selected")
    tab.until("document.querySelector(\"input[aria-label='Select all groups']\").checked", "that these are all")
    tab.click("button", "Preview redelivery…")
    tab.sees("Redeliver 31 events?")
    tab.sees("hook")
    tab.misses("Somebody gave")
    tab.click("dialog button", "Cancel")
    tab.until("!document.querySelector('dialog')")

    # The dead by their errors: select, preview, confirm, and watch it; pause and resume it.
    tab.click(".group[data-reason=discarded] input[type=checkbox]")
    tab.sees("32 events in 2 groups selected")
    tab.click("button", "Preview redelivery…")
    tab.sees("Redeliver 32 events?")
    tab.sees("Somebody gave")
    if pictures:
        tab.picture(f"{pictures}/preview.png", whole=False)
    tab.type("dialog input[name=why]", "the endpoint is mended")
    tab.sees("2 redeliveries, which share the rate")
    # Slow enough to be paused before it is done, also on a machine that stalls for long.
    tab.type("dialog input[name=rate]", "2")
    tab.click("dialog button.main", "Redeliver 32 events")
    tab.until("[...document.querySelectorAll('.job')].filter((it) => it.textContent.includes('at most 1/s')).length === 2", "half of the rate for each")
    tab.until("document.querySelectorAll('.job[data-state=done]').length === 1", "the smaller one is done")
    tab.click(".job button", "Pause")
    tab.type("dialog input[name=why]", "one moment")
    tab.click("dialog button.main", "Pause")
    tab.until("document.querySelector('.job')?.dataset.state === 'paused'")
    if pictures:
        tab.picture(f"{pictures}/job.png", whole=False)
    tab.click(".job button", "Resume")
    tab.type("dialog input[name=why]", "go on")
    tab.click("dialog button.main", "Resume")
    tab.until("document.querySelectorAll('.job[data-state=done]').length === 2")
    tab.sees("31 of 31")
    tab.sees("Nothing is dead")
    tab.until("document.querySelector('.badge').textContent === ''", "nothing dead, live")

    # A destination paused and resumed, with a banner on every page meanwhile.
    tab.press("g"), tab.press("t")
    tab.click("button", "Pause hook")
    tab.type("dialog input[name=why]", "they asked for it")
    tab.click("dialog button.main", "Pause")
    tab.sees("they asked for it")
    tab.until("document.querySelector('#banner').textContent.includes('is paused')", "the banner")
    tab.click("button", "Resume hook")
    tab.type("dialog input[name=why]", "they are back")
    tab.click("dialog button.main", "Resume")
    tab.until("!document.querySelector('#banner').textContent", "no banner")

    # Live: charts go on by themselves, stand still when paused, and catch up.
    tab.press("g"), tab.press("o")
    line = "document.querySelector('.chart .line[data-line=\"0\"]')?.getAttribute('d')"
    first = tab.until(line, "a line")
    tab.until(f"{line} !== {json.dumps(first)}", "another point")
    tab.click("button.live")
    tab.sees("Paused")
    still = tab.run(line)
    time.sleep(1.5)
    assert tab.run(line) == still, "what is paused stands still"
    tab.press("p")
    tab.until(f"{line} !== {json.dumps(still)}", "it goes on")

    # All of it is written down.
    tab.press("g"), tab.press("a")
    tab.sees("they asked for it")
    tab.sees("the endpoint is mended")

    # A deep link opens where it leads; light and dark; on a phone nothing is wider than the screen.
    tab.open(deep)
    tab.sees("Attempt 1: rejected")
    tab.click("button[aria-label='Light or dark']")
    tab.until("document.documentElement.dataset.theme === 'dark'")
    tab.run("localStorage.clear(); delete document.documentElement.dataset.theme")
    for width, height in [(1440, 900), (390, 844)]:
        for name in [*PAGES, "event"]:
            where = deep.split("#")[1] if name == "event" else f"/{urllib.parse.quote(table)}/{name}"
            tab.size(width, height)
            tab.run(f"location.hash = {json.dumps(where)}")
            tab.until("!!document.querySelector('h1')?.textContent")
            wide = tab.run("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert wide <= 0, f"{name} is {wide} pixels too wide at {width}"
            nameless = tab.run("""[...document.querySelectorAll("button, a, input:not([type=submit]), select")].filter((it) =>
                !(it.textContent.trim() || it.ariaLabel || it.labels?.[0]?.textContent.trim())).map((it) => it.outerHTML).join()""")
            assert not nameless, f"{name}: without a name: {nameless}"
            for theme in ["light", "dark"]:
                tab.size(width, height, theme)
                # Paper and ink are far apart, and the right way around.
                paper, ink = tab.run("""[getComputedStyle(document.documentElement).backgroundColor, getComputedStyle(document.querySelector("h1")).color]
                    .map((it) => it.match(/[0-9.]+/g).slice(0, 3).map(Number).reduce((a, b) => a + b))""")
                light = theme == "light"
                assert (paper - ink if light else ink - paper) > 350, f"{name} is hard to read in {theme}: {paper}, {ink}"
                if pictures:
                    time.sleep(1)
                    tab.picture(f"{pictures}/{name}-{width}-{theme}.png")
    tab.harmless()

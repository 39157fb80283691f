token, folder = sys.argv[2:4]
ROWS = "document.querySelectorAll('tbody tr').length"

with Browser(sys.argv[1]) as browser:
    tab = browser.tab()
    tab.forgiven = ["/healthz", "503", "504"]
    tab.open("/")
    tab.type("#token", token)
    tab.press("Enter")
    tab.sees("Overview")
    tab.press("g"), tab.press("e")
    tab.until(f"{ROWS} === 3", "three events")

    # What was seen stays there to be read, under a banner that says that it may be old by now.
    pathlib.Path(folder, "go").touch()
    tab.until("document.querySelector('#banner').textContent.includes('does not answer')", "a banner")
    tab.sees("Events are safe in it")
    assert tab.run(ROWS) == 3, "what was seen is taken away"
    # The page itself says why it cannot be brought up to date.
    tab.until("!!document.querySelector('#page [role=alert] .notice')", "why")

    # Nobody has to load the page anew.
    pathlib.Path(folder, "come").touch()
    tab.until("!document.querySelector('#banner').textContent", "no banner any more")
    tab.until("!document.querySelector('#page [role=alert] .notice')", "nothing wrong any more")
    tab.press("g"), tab.press("o")
    tab.sees("Overview")
    line = "document.querySelector('.chart .line[data-line=\"0\"]')?.getAttribute('d')"
    first = tab.until(line, "a line")
    tab.until(f"{line} !== {json.dumps(first)}", "another point")
    tab.harmless()

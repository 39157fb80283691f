no_payload, viewer, operator = sys.argv[2:5]

with Browser(sys.argv[1]) as browser:
    stranger = browser.tab()
    stranger.forgiven = ["401"]
    stranger.open("/")
    stranger.type("#token", "phst_nobody")
    stranger.press("Enter")
    stranger.sees("This token is not known here")
    stranger.harmless()

    for role, token in [("viewer-no-payload", no_payload), ("viewer", viewer), ("operator", operator)]:
        tab = browser.tab()
        tab.forgiven = ["/healthz"]
        tab.open("/")
        tab.type("#token", token)
        tab.press("Enter")
        tab.sees("Overview")
        tab.until(f"document.querySelector('.who small').textContent === '{role}'")
        tab.until(f"document.querySelector('.hint .go')?.textContent === '{'See why, and redeliver →' if role == 'operator' else 'See why →'}'")
        tab.sees("1 event is dead.")
        tab.press("g"), tab.press("e")
        tab.click("td.topic a", "shop.order.placed.v1")
        tab.sees("Attempt 1: rejected")
        if role == "viewer-no-payload":
            tab.sees("does not allow you to read payloads")
            tab.misses("4111-1111")
        else:
            tab.sees("4111-1111")
        # What is not allowed is not offered.
        for key, button in [(None, "Redeliver…"), (None, "Discard…"), ("d", "Preview redelivery…"), ("t", "Pause hook")]:
            if key:
                tab.press("g"), tab.press(key)
                # The page before may still be there.
                wanted = {"d": "Dead letters", "t": "Destinations"}[key]
                tab.until(f"document.querySelector('h1')?.textContent === '{wanted}' && !!document.querySelector('.group, .destination')")
            there = tab.run(f"[...document.querySelectorAll('#page button')].some((it) => it.textContent.includes({json.dumps(button)}))")
            assert there == (role == "operator"), f"{button} as {role}"
        if role == "operator":
            tab.run("history.go(-2)")
            tab.click("button", "Discard…")
            tab.type("dialog input[name=why]", "a test card")
            tab.click("dialog button.danger", "Discard")
            tab.sees("a test card")
            tab.sees("discarded")
            # What is discarded needs nobody any more.
            tab.press("g"), tab.press("o")
            tab.until("document.querySelector('h1')?.textContent === 'Overview' && document.querySelectorAll('.chart .line').length > 4")
            tab.until("!document.querySelector('.hint')", "nothing to look at")
        tab.click("button[aria-label='Sign out']")
        tab.until("location.pathname === '/login'")
        tab.open("/")
        tab.until("location.pathname === '/login'")
        tab.harmless()

token = sys.argv[2]

with Browser(sys.argv[1]) as browser:
    tab = browser.tab()
    tab.forgiven = ["/healthz"]
    tab.open("/")
    tab.type("#token", token)
    tab.press("Enter")
    tab.sees("Overview")
    tab.press("g"), tab.press("e")
    tab.until("document.querySelectorAll('tbody tr').length === 6", "six events")
    for text in ["<script>window.canary=1;alert(1)</script>", "<img src=x onerror=", "javascript:window.canary=1;alert(3)", "shop.\\u202egnp.exe\\u202c"]:
        tab.sees(text)
    events = tab.run("[...document.querySelectorAll('td.topic a')].map((it) => [it.textContent, it.getAttribute('href')])")
    odd = tab.run("[...document.querySelectorAll('a')].filter((it) => new URL(it.href).origin !== location.origin).length")
    assert odd == 0, "every link leads to us"
    for topic, link in events:
        tab.run(f"location.hash = {json.dumps(link)}")
        tab.until(f"document.querySelector('h1')?.textContent === {json.dumps(topic)}", topic)
        tab.until("!!document.querySelector('.payload')?.childElementCount", "the payload")
        assert tab.run("document.querySelectorAll('main script, main img, main b:not(.count), main iframe').length") == 0
        if topic == "shop.large.v1":
            nodes = tab.run("document.querySelectorAll('*').length")
            assert nodes < 2000, f"a megabyte became {nodes} elements"
            tab.sees("69,901 more")
            tab.click(".inner > button", "69,901 more")
            tab.sees("69,801 more")
        elif topic == "shop.raw.v1":
            tab.sees("\\u001b[2J\\u0007<b>bold</b>")
        else:
            # Every digit of a number that a double cannot hold, and what cannot be seen.
            tab.sees("12345678901234567890")
            tab.sees("\\u001b[31m\\u202e")
            tab.click("button", "As it was sent")
            tab.until("!!document.querySelector('pre.text')")
    # In a query, too: it is written into fields, and asked for, and nothing more.
    table = tab.run("location.hash.split('/')[1]")
    hostile = urllib.parse.quote("\"><script>window.canary=1</script>", safe="")
    for page, title in [("events", "Events"), ("dead", "Dead letters"), ("audit", "Audit"), ("overview", "Overview")]:
        tab.run(f"location.hash = '#/{table}/{page}?topic={hostile}'")
        tab.until(f"document.querySelector('h1')?.textContent === {json.dumps(title)}", title)
        # What it asks for comes a moment later.
        time.sleep(0.3)
    tab.run(f"location.hash = '#/{hostile}/events/{hostile}'")
    tab.until("document.querySelector('h1')?.textContent === 'Events'", "Events")
    tab.forgiven += ["400 (Bad Request)", "404 (Not Found)"]
    tab.harmless()

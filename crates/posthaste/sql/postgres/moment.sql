-- moment: what time it is.
select clock_timestamp()

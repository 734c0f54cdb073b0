"""The activity screen: operations of people, beside failures, starts, stops and automatic recoveries."""

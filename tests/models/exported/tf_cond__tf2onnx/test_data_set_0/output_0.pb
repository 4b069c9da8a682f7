B
Identity:0J…³?˜M¿šq§¾+c?
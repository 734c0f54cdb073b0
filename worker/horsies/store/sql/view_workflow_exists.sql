-- views/workflow_story.py; reads only
SELECT true FROM horsies_workflows WHERE id = $1
